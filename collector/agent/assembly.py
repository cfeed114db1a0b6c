"""Puts the agent together from its settings."""

from __future__ import annotations

import socket
from pathlib import Path

from analyzers.errors import UserError
from collector.agent.config.load import read_secret
from collector.agent.config.model import Config
from collector.agent.feeds import make_feeds
from collector.agent.helped import helped
from collector.agent.incidents import Incidents
from collector.agent.loop import Parts
from collector.agent.probing_pool import Prober
from collector.agent.release_work import ReleaseWork
from collector.agent.roster import Roster
from collector.agent.service.journal_log import Log
from collector.agent.states.model import Knobs
from collector.agent.states.watch import StateWatch
from collector.agent.wishes import Wishlist
from collector.incidents.find import default_folder
from collector.outbox.delivery import Delivery
from collector.outbox.hub import HubSink
from collector.outbox.sinks import Sink, plugin_sinks
from collector.outbox.store import Store, open_store


def assemble(config: Config, outbox: Path | None, log: Log) -> Parts:
    """Every part of the agent, ready for its first round. Raises UserError when the outbox cannot be used."""
    folder = outbox or config.outbox.folder or default_folder()
    store = open_store(folder, max_bytes=config.outbox.max_bytes)
    try:
        return _parts(config, store, folder, log)
    except BaseException:
        store.close()
        raise


def _parts(config: Config, store: Store, folder: Path, log: Log) -> Parts:
    roster = Roster()
    help = helped(config.agent.helper_socket, roster, kernel=config.sources.kernel)
    feeds = make_feeds(config.sources, store.cursors(), roster, kernel_device=help.kernel)
    feeds.places = help.places
    wishlist = Wishlist(config)
    for line in (*feeds.notes, *wishlist.problems):
        log.warning("left-out", line)
    incidents = Incidents(folder, host=socket.gethostname(), captures=config.sources.captures)
    incidents.restore(store.open_incidents())
    knobs = Knobs(stranded=config.stranded.after_seconds, hung=config.hung.after_seconds)
    return Parts(
        discovery=help.discovery,
        feeds=feeds,
        roster=roster,
        watch=StateWatch(knobs=knobs, senses=help.senses),
        prober=Prober(every=config.probes.every_seconds, timeout=config.probes.timeout_seconds),
        incidents=incidents,
        store=store,
        wishlist=wishlist,
        release=ReleaseWork(),
        delivery=_delivery(config, store, log),
        log=log,
        devices=config.sources.devices,
    )


def _delivery(config: Config, store: Store, log: Log) -> Delivery | None:
    sinks, problems = plugin_sinks() if config.sources.plugins else ([], [])
    for line in problems:
        log.warning("left-out", line)
    hub = _hub(config, log)
    sinks = [*sinks, *([hub] if hub is not None else [])]
    return Delivery(store, sinks) if sinks else None


def _hub(config: Config, log: Log) -> Sink | None:
    """A hub that cannot be used is a line of the log: watching goes on without it."""
    if config.hub is None:
        return None
    try:
        token = read_secret(config.hub.token_file) if config.hub.token_file is not None else None
        return HubSink(config.hub.url, token, ca_file=config.hub.ca_file)
    except UserError as error:
        log.error("hub", str(error))
        return None
