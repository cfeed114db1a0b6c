"""A debugged server without a process: its gdb answers from a table, its events are put in by hand."""

from collections import deque
from types import SimpleNamespace

from analyzers.stacks.mi import MiError
from collector.lab.reference.conditions import ENTERING
from collector.lab.reference.output import Line
from collector.lab.reference.spec import ServerSpec
from collector.lab.verify.directed.debugged import DebuggedServer
from collector.lab.verify.directed.mi import parse_record

# As gdb 13 printed them on the wheel of b11549, addresses shortened.
FRAME = 'frame={addr="0x7f",func="f",args=[]}'
THREAD = 'thread-id="%s",stopped-threads=["%s"],core="1"'
HIT = f'*stopped,reason="breakpoint-hit",disp="keep",bkptno="1",{FRAME},{THREAD}'
FINISHED = f"*stopped,{FRAME},{THREAD}"
SIGNAL = f'*stopped,reason="signal-received",signal-name="%s",signal-meaning="x",{FRAME},{THREAD}'
TASKS = "std::vector<server_task, std::allocator<server_task> >&&, bool"
HANDLER_STACK = (
    f"server_queue::post({TASKS})",
    f"server_response_reader::post_tasks({TASKS})",
    "server_routes::handle_completions_impl(server_http_req const&, server_task_type, common_json const&)",
    "std::_Function_handler<std::unique_ptr<server_http_res> (server_http_req const&), "
    "server_routes::init_routes()::{lambda(server_http_req const&)#12}>::_M_invoke(std::_Any_data const&)",
    "httplib::Server::dispatch_request(httplib::Request&, httplib::Response&)",
)
LOOP_STACK = (
    "server_queue::post(server_task&&, bool)",
    "server_context_impl::process_single_task(server_task&&)",
    "server_queue::start_loop(long)",
    "server_context::start_loop()",
)


class FakeGdb:
    """``answers``: command prefix → payload, list of payloads, or MiError. ``sent``: every command."""

    def __init__(self, **stacks):
        self.sent = []
        self.stacks = stacks
        self.answers = {}
        self.said = deque()
        self.ended = False
        self._events = []
        self.on = {}

    def happen(self, *lines):
        self._events += [record for line in lines if (record := parse_record(line.encode()))]

    def events(self):
        taken, self._events = self._events, []
        return taken

    def wait(self, seconds):
        pass

    def ask(self, command, deadline=1.0):
        self.sent.append(command)
        for prefix in list(self.on):
            if command.startswith(prefix):
                self.happen(*self.on.pop(prefix))
        if command.startswith("-stack-list-frames"):
            names = self.stacks[command.split()[2]]
            return {"stack": [{"level": str(at), "func": name} for at, name in enumerate(names)]}
        for prefix, answer in self.answers.items():
            if command.startswith(prefix):
                answer = answer.pop(0) if isinstance(answer, list) else answer
                if isinstance(answer, MiError):
                    raise answer
                return answer
        return {}

    def console(self, command):
        self.ask(f"console {command}")


class FakeServer(DebuggedServer):
    """Looks are made until the condition holds, at most ``looks`` times; no time passes."""

    def __init__(self, **stacks):
        self.gdb = FakeGdb(**stacks)
        self.hits, self.left, self.passed, self._strays = deque(), set(), [], []
        self.fatal = self._exit = None
        self._inferior = 7  # the process that the reports in these tests name
        self._child = SimpleNamespace(ending=None, pid=1)
        self.spec = ServerSpec(model=None, python="python")
        self.port = 1
        self.log = []
        self.looks = 5
        self.before_look = lambda number: None
        self.output = SimpleNamespace(lines=lambda: [Line(text, 0.0, 0.0) for text in self.log])

    def wait_until(self, condition, deadline):
        for number in range(self.looks):
            self.before_look(number)
            if condition(self):
                return True
        return False

    def sleeps(self):
        self.log.append(f"0.01.000.000 I que    start_loop: {ENTERING}")
