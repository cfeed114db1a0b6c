"""Several servers work through the jobs: each once, and nothing is left behind."""

import threading

import pytest

from analyzers.contracts.routes import RouteTrial
from analyzers.errors import UserError
from collector.lab.verify.routes.lanes import Job, work
from collector.lab.verify.routes.seat import StoppedError
from collector.lab.verify.routes.table import all_routes

DEADLINE = 10.0


class Seat:
    """A seat that only counts how often it was left."""

    def __init__(self):
        self.stop = threading.Event()
        self.left = 0

    def leave(self):
        self.left += 1


def jobs(count):
    return [Job(route, "asleep") for route in all_routes()[:count]]


def trial(seat, route, state):
    return RouteTrial(number=0, route=route.name, state=state, outcome="answered")


@pytest.mark.parametrize("lanes", [1, 3, 9])
def test_every_job_is_done_once_on_any_number_of_lanes(lanes):
    seats = [Seat() for _ in range(lanes)]

    done = [each.route for each in work(seats, jobs(6), trial)]

    assert sorted(done) == sorted(job.route.name for job in jobs(6))
    assert all(seat.left for seat in seats)


def test_lanes_work_at_the_same_time():
    # GIVEN two jobs that each wait for the other
    both = threading.Barrier(2, timeout=DEADLINE)

    def together(seat, route, state):
        both.wait()
        return trial(seat, route, state)

    # THEN they can only end when both are under way
    assert len(list(work([Seat(), Seat()], jobs(2), together))) == 2


def test_an_error_in_one_lane_is_raised_and_ends_the_others():
    seats = [Seat(), Seat()]

    def failing(seat, route, state):
        if route == jobs(1)[0].route:
            raise UserError("the disk is full", where="x", remedy="y")
        return trial(seat, route, state)

    with pytest.raises(UserError, match="the disk is full"):
        list(work(seats, jobs(6), failing))

    assert all(seat.stop.is_set() and seat.left for seat in seats)


def test_leaving_early_stops_every_lane():
    # GIVEN a run that is given up after its first trial
    seats = [Seat(), Seat()]
    running = work(seats, jobs(6), trial)
    next(running)

    # WHEN it is closed, as Ctrl-C does
    running.close()

    # THEN every lane is told, every server is left and no lane works on
    assert all(seat.stop.is_set() and seat.left for seat in seats)
    assert not [each for each in threading.enumerate() if each.name == "routes-lane"]


def test_a_lane_that_was_stopped_is_no_error():
    def stopped(seat, route, state):
        raise StoppedError

    assert list(work([Seat()], jobs(3), stopped)) == []


def test_without_jobs_nothing_happens():
    assert list(work([Seat()], [], trial)) == []
