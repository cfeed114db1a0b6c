"""A server this run did not start is touched only when the user names its host."""

import pytest

from analyzers.errors import UserError
from collector.lab.verify.consent import URL_LIMIT, consented


def refusal(url, host=None):
    with pytest.raises(UserError) as caught:
        consented(url, host)
    return str(caught.value)


@pytest.mark.parametrize(
    ("url", "host", "name"),
    [
        ("http://127.0.0.1:8080", "127.0.0.1", "http://127.0.0.1:8080"),
        ("http://llama.example:9000/api/", "llama.example", "http://llama.example:9000/api"),
        ("https://LLAMA.example", "llama.EXAMPLE", "https://llama.example:443"),
        ("http://[::1]:8080", "::1", "http://[::1]:8080"),
        ("http://[::1]:8080", "[::1]", "http://[::1]:8080"),
    ],
)
def test_the_named_host_is_touched(url, host, name):
    assert consented(url, host).name == name


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080", "http://localhost:1", "http://llama.example"])
def test_without_a_named_host_nothing_is_touched_not_even_loopback(url):
    said = refusal(url)

    assert "did not start that server" in said
    assert "--touch-host" in said


@pytest.mark.parametrize("host", ["", "llama", "other.example", "llama.example.evil", "127.0.0.1"])
def test_another_host_is_not_consent(host):
    assert "names another host" in refusal("http://llama.example:80", host)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "llama.example:8080",
        "ftp://llama.example",
        "file:///etc/passwd",
        "http://",
        "http://llama.example:99999",
        "http://llama.example:port",
        "http://llama.example/?model=x",
        "http://llama.example/#x",
        "http://llama.example/a b",
        "http://llama.example/\r\nX-Evil: 1",
        "http://llama.example/" + "a" * URL_LIMIT,
    ],
)
def test_what_is_no_plain_address_is_refused(url):
    said = refusal(url, "llama.example")

    assert "--target" in said
    assert "\n" not in said
    assert len(said) < 600


def test_a_password_in_the_address_is_refused_and_not_repeated():
    said = refusal("http://me:hunter2@llama.example", "llama.example")

    assert "password" in said
    assert "hunter2" not in said
