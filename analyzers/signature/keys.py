"""The two keys of a crash.

``bug_key`` answers "is this the same bug?" and survives a rebuild: no address, offset, line, lambda
number, template argument or parameter stands in it, and recursion is folded.

- Where the defect is known: ``class|defect|handler``. The place inside the reader is left out on purpose:
  freed memory is hit wherever the tokenizer happened to be when the model went away, so ten crashes of one
  defect have ten sets of top frames. The other way round, D1 and D2 can share all their top frames and
  differ in the defect alone.
- Where no defect is known: ``class|-|handler|site``. The site is the first three telling frames, and is
  then the best there is to tell bugs apart.
- Where no frame has a name (a stripped build): ``class|-|handler|module+offset<module+offset<…``, offsets
  from each module's load address: the same on every host and at every base, different in every build.
- Without a stack: ``class|defect|route``, so that a hang or a log-only crash of one route is one bug.

``site_key`` answers "is this the same instruction of the same build?": the first 16 digits of the build-id
and the offset of the first frame that is not plumbing; the module's name where no build-id is known.

The keys are made by a chain of small rules; each that acts leaves a line in ``explain``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from analyzers.contracts.facts import StackFact
from analyzers.contracts.report import Signature
from analyzers.signature import rules
from analyzers.signature.rules import Draft, Rule
from analyzers.stacks.frames import Handler

VERSION = 2  # raised whenever the same crash would get another key


@dataclass
class _Trace:
    lines: list[str] = field(default_factory=list)

    def say(self, rule: Rule, text: str) -> None:
        self.lines.append(rules.printable(f"{rule.name}: {text}"))


def sign(
    stack: StackFact | None,
    *,
    class_: str,
    defect: str | None,
    handler: Handler | str | None = None,
    route: str | None = None,
    pipeline: Sequence[Rule] = rules.PIPELINE,
) -> Signature:
    """Both keys of a crash or hang. Never raises: a rule that fails becomes a line of ``explain``.

    ``handler``: the route handler (None: taken from the stack); ``route``: an HTTP path, used where no
    handler is known.
    """
    name = handler.name if isinstance(handler, Handler) else handler
    draft = Draft(stack=stack, class_=class_, defect=defect, handler=name, route=route)
    trace = _Trace()
    for rule in pipeline:
        _apply(rule, draft, trace)
    return Signature(bug_key=draft.bug_key, site_key=draft.site_key, version=VERSION, explain=trace.lines)


def _apply(rule: Rule, draft: Draft, trace: _Trace) -> None:
    try:
        if rule.applies(draft):
            trace.say(rule, rule.act(draft))
    except Exception as error:  # noqa: BLE001 - one bad rule must not cost the crash its other key
        trace.say(rule, f"failed ({type(error).__name__}); left out")
