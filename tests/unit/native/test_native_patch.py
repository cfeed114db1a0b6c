"""Fixes are placed by declaration: all of their places, each exactly once, or nothing at all."""

from __future__ import annotations

import re
import subprocess

import pytest

from analyzers.errors import UserError
from collector.lab.native import fixes
from collector.lab.native.fixes import Edit, Fix, fix_files, load_fix, read_fix
from collector.lab.native.patch import Place, applied, patched, reader, unified_diff

SERVER = "tools/server"


def edit(find="x", way="replace", text="y", **more) -> Edit:
    return Edit("f.cpp", find, way, text, **more)


def apply(made: Edit, text: str) -> str:
    return applied(made, text, Place("test", "b1", made))


def test_a_replacement_keeps_everything_else() -> None:
    assert apply(edit(find="int a ;", text="int b;"), "// int a;\nint   a\n;\n") == "// int a;\nint b;\n"


def test_lines_are_added_after_with_the_indentation_of_what_was_found() -> None:
    text = "f() {\n    lock();\n    go();\n}"
    assert apply(edit("lock", "after", "n++;\n\nm++;\n"), text) == (
        "f() {\n    lock();\n    n++;\n\n    m++;\n    go();\n}"
    )


def test_lines_are_added_before() -> None:
    assert apply(edit("go", "before", "lock();\n"), "\tgo();") == "\tlock();\n\tgo();"


def test_a_line_is_added_after_the_last_one_without_an_end() -> None:
    assert apply(edit("go", "after", "end();"), "go();") == "go();\nend();"


@pytest.mark.parametrize(("text", "count"), [("nothing", "not found"), ("x x", "found 2 times")])
def test_a_place_not_found_or_found_twice_is_an_error_that_names_all(text: str, count: str) -> None:
    with pytest.raises(UserError) as caught:
        apply(edit(find=r"\bx\b"), text)
    line = str(caught.value)
    assert count in line
    assert all(part in line for part in ("f.cpp", "test", "b1", r"\bx\b"))
    assert "\n" not in line


def test_a_scope_not_found_or_found_twice_is_named() -> None:
    made = edit(scope=("struct a", "function f"))
    with pytest.raises(UserError, match="'struct a' is not found"):
        apply(made, "struct b { x; };")
    with pytest.raises(UserError, match="'function f' is found 2 times"):
        apply(made, "struct a { void f() { x; } void f(int) { } };")


def test_only_the_scope_is_searched() -> None:
    text = "x; struct a { void f() { x; } }; x;"
    assert apply(edit(scope=("struct a", "function f")), text) == "x; struct a { void f() { y; } }; x;"


def test_every_occurrence_is_replaced_only_when_asked() -> None:
    assert apply(edit(every=True, text="longer"), "x x // x") == "longer longer // x"
    with pytest.raises(UserError):
        apply(edit(every=True), "none")


def test_an_optional_place_may_be_missing() -> None:
    assert apply(edit(optional=True), "none") == "none"


@pytest.mark.parametrize("name", sorted(fix_files()))
def test_every_shipped_fix_fits_the_shape_it_was_made_for(name: str, skeleton) -> None:
    """GIVEN a tree with the shape of the base WHEN patched THEN the diff applies with patch(1)."""
    read = reader(skeleton, "b11138")
    texts = patched(load_fix(name), "b11138", read)
    diff = unified_diff(read, texts)
    subprocess.run(["patch", "-p1", "-s"], input=diff.encode(), cwd=skeleton, check=True)
    assert {path: (skeleton / path).read_text() for path in texts} == texts


def test_the_counting_fix_makes_what_it_promises(skeleton) -> None:
    texts = patched(load_fix("count-requests"), "b11138", reader(skeleton, "b11138"))
    queue, header, context = (
        texts[f"{SERVER}/{name}"] for name in ("server-queue.cpp", "server-queue.h", "server-context.cpp")
    )
    # counted under the lock and before the first look at the flag
    assert re.search(
        r"wait_until_no_sleep\(\) \{\s+std::unique_lock[^;]+;\s+n_requests_open\+\+;\s+if \(!sl", queue
    )
    # behind the test that sleeping is on at all, before the clock is read
    assert re.search(r"idle_sleep_ms < 0[^}]+\}\s+if \(n_requests_open > 0\)[^}]+\}\s+int64_t now", queue)
    # no member of the queue moves: the new one is the last
    assert re.search(r"callback_sleeping_state;\s+int n_requests_open = 0;[^\n]*\s+public:", header)
    assert header.index("struct server_awake_guard") < header.index("// struct for managing server responses")
    # destroyed after the reader, which posts cancel tasks in its destructor
    assert context.index("server_awake_guard awake;") < context.index("server_response_reader rd;")
    assert "queue_tasks.wait_until_no_sleep()" not in context


def test_the_reading_fix_makes_what_it_promises(skeleton) -> None:
    texts = patched(load_fix("read-after-barrier"), "b11138", reader(skeleton, "b11138"))
    context, header = texts[f"{SERVER}/server-context.cpp"], texts[f"{SERVER}/server-context.h"]
    assert "handle_count_tokens(const server_http_req & req, task_response_type" in header
    assert context.count("return handle_count_tokens(req, ") == 2
    assert "// vocab and mctx of a comment stay" in context
    body = context[context.index("server_routes::handle_count_tokens(const server_http_req") :]
    barrier = body.index("create_response()")
    for name in ("vocab", "mctx", "init_opt"):
        assert body.index(f"ctx_server.{name}") > barrier
        assert not re.search(rf"(?<!ctx_server\.)\b{name}\b(?! and| of)", body)


@pytest.mark.parametrize("name", sorted(fix_files()))
def test_a_build_that_has_the_fix_is_told_so_and_not_patched(name: str, skeleton) -> None:
    """GIVEN a tree with the fix in it WHEN it is asked for again THEN an error says it is not needed."""
    read = reader(skeleton, "b99999")
    for path, text in patched(load_fix(name), "b99999", read).items():
        (skeleton / path).write_text(text)
    with pytest.raises(UserError, match=f"fix {name} is not needed by b99999"):
        patched(load_fix(name), "b99999", read)


@pytest.mark.parametrize("name", sorted(fix_files()))
def test_a_tree_without_one_of_the_places_is_left_alone(name: str, skeleton) -> None:
    fix = load_fix(name)
    needed = [each for each in fix.edits if not each.optional]
    for each in needed:
        path = skeleton / each.file
        whole = path.read_text()
        place = (
            each.scope[0].split()[-1]
            if each.scope
            else re.search(r"[a-z_]{6,}", each.find.replace(r"\b", " "))[0]
        )
        path.write_text(whole.replace(place, "renamed"))
        with pytest.raises(UserError, match="not found"):
            patched(fix, "b1", reader(skeleton, "b1"))
        path.write_text(whole)


def test_a_tree_without_the_file_is_named(tmp_path) -> None:
    with pytest.raises(UserError, match="no such source file"):
        patched(load_fix("count-requests"), "b1", reader(tmp_path, "b1"))


def test_an_unknown_fix_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UserError) as caught:
        load_fix("../../etc/passwd")
    assert "count-requests, read-after-barrier" in str(caught.value)
    assert "passwd" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "not toml [",
        'name = "a"',
        'name="a"\nbase=1\nsummary=""\ndefects=[]\n[[edit]]\nfile="f"\nfind="x"',
        'name="a"\nbase=1\nsummary=""\ndefects=[]\n[[edit]]\nfile="f"\nfind="x"\nreplace=""\nafter=""',
        'name="a"\nbase=1\nsummary=""\ndefects=[]\n[[edit]]\nfile="f"\nfind="x"\nreplace=""\nunknown=1',
    ],
)
def test_a_broken_description_is_one_line(text: str, tmp_path) -> None:
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(UserError, match="not a description of a fix"):
        read_fix(tmp_path / "a.toml")


def test_a_comment_in_a_description_does_not_change_its_hash(tmp_path) -> None:
    source = fix_files()["count-requests"].read_text()
    (tmp_path / "a.toml").write_text("# more\n" + source)
    (tmp_path / "b.toml").write_text(source.replace("n_requests_open++", "n_requests_open += 2"))
    first, commented, other = (
        read_fix(path) for path in (fix_files()["count-requests"], tmp_path / "a.toml", tmp_path / "b.toml")
    )
    assert first.sha256 == commented.sha256 != other.sha256


def test_every_fix_is_named_like_its_file_and_says_what_it_ends() -> None:
    for name, path in fix_files().items():
        fix: Fix = read_fix(path)
        assert fix.name == name
        assert fix.defects
        assert fix.summary


def test_the_wheel_carries_every_fix() -> None:
    project = fixes.toml.loads((fixes.CHECKOUT.parents[1] / "pyproject.toml").read_text())
    data = project["tool"]["setuptools"]["data-files"]
    assert data[fixes.INSTALLED] == ["deploy/reference-server/*.toml"]


def test_without_a_checkout_the_installed_ones_are_found(monkeypatch, tmp_path) -> None:
    class Installed:
        suffix = ".toml"

        def __str__(self) -> str:
            return f"../../../{fixes.INSTALLED}/some-fix.toml"

        def locate(self):
            return tmp_path / "some-fix.toml"

    monkeypatch.setattr(fixes, "CHECKOUT", tmp_path / "none")
    monkeypatch.setattr(fixes.importlib.metadata, "files", lambda name: [Installed()])
    assert fix_files() == {"some-fix": tmp_path / "some-fix.toml"}
