"""Runs an ASGI application, or a function that takes a request of FastAPI: reads an event from each line of standard input, and answers it.

    echo '{"specversion":"1.0","id":"1","source":"/me","type":"greet"}' | python3 .landfall/landfall_asgi.py main.app

The application runs in an event loop of its own thread, which goes on between events. One process has one event at a time.
"""

import asyncio
import atexit
import codecs
import concurrent.futures
import inspect
import queue
import sys
import threading
from urllib.parse import unquote_to_bytes, urlsplit

import adaptor

# How long an application may take to end its lifespan when the process is to end, and to say in the log why it answered with an error.
PATIENCE = 1


def is_application(found):
    """Reports whether something is called with a scope, and with what receives and sends."""
    call = found if inspect.isfunction(found) or inspect.ismethod(found) else getattr(found, "__call__", None)
    return adaptor.parameters(found) == 3 and (not inspect.isfunction(found) or inspect.iscoroutinefunction(call))


def load(entry):
    """Returns what answers events by an entry point: an ASGI application, or a function that takes a request of FastAPI."""
    return answering(entry, found(entry))


def found(entry):
    """Returns what an entry point names. In a module without main it may be the application, by its usual names."""
    try:
        return adaptor.find(entry)
    except adaptor.Fault:
        module, _, name = entry.rpartition(".")
        for usual in ("app", "application") if name == "main" else ():
            there = getattr(sys.modules.get(module), usual, None)
            if there is not None and is_application(there):
                return there
        raise


def answering(entry, function):
    """Returns what answers events by an application, or by a function that takes a request."""
    if not is_application(function):
        function = wrapped(entry, function)
    server = Server(function)
    atexit.register(server.stop)
    return server.answer


def wrapped(entry, function):
    """Returns an application whose requests go to a function, as Fission's environment python-fastapi has them."""
    if adaptor.parameters(function) != 1:
        raise adaptor.Fault(
            "WrongHandler", f"{entry} takes {adaptor.parameters(function)} parameters; it takes one, which is the request, or is an ASGI application"
        )
    try:
        import fastapi
    except ModuleNotFoundError:
        raise adaptor.Fault(
            "MissingModule",
            f"{entry} takes a request of FastAPI, which is not there: write fastapi into requirements.txt, and let the package be built",
        ) from None

    async def endpoint(request):
        value = function(request)
        return await value if hasattr(value, "__await__") else value

    endpoint.__annotations__ = {"request": fastapi.Request}
    app = fastapi.FastAPI(openapi_url=None)
    app.add_api_route("/{path:path}", endpoint, methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
    return app


class Server:
    """Runs one application in a thread."""

    def __init__(self, app):
        self.app = app
        self.loop = asyncio.new_event_loop()
        self.state = {}
        self.lifespan = None
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        failure = self.run(self.start())
        if failure:
            raise adaptor.Fault("StartupFailed", failure)

    def run(self, coroutine):
        """Waits for what the application's thread does."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    async def start(self):
        """Begins the lifespan of the application. It returns why that failed; an application that knows nothing of one goes without."""
        self.lifespan = lifespan = Lifespan(self.app, self.state)
        return await lifespan.begin()

    def stop(self):
        """Ends the lifespan of the application."""
        future = asyncio.run_coroutine_threadsafe(self.lifespan.end(), self.loop)
        try:
            future.result(PATIENCE)
        except (Exception, concurrent.futures.CancelledError) as error:
            adaptor.log(f"the application did not shut down: {adaptor.said(error) or type(error).__name__}")

    def answer(self, event):
        """Answers an event."""
        call = Call(self, event)
        begun = call.next()
        if begun["type"] != "http.response.start":
            raise adaptor.Fault("InvalidAnswer", f"the application sent {begun['type']} before http.response.start")
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in begun.get("headers") or ()]
        status, first = begun["status"], call.next()
        if not any(name.lower() == "content-type" for name, _ in headers) and is_text(first.get("body")):
            headers.append(("content-type", "text/plain; charset=utf-8"))
        if not first.get("more_body"):
            call.end(status)
            return adaptor.reply(event, status, headers, first.get("body") or b"")
        return adaptor.Pieces(pieces(event, call, status, headers, first))


def is_text(body):
    """Reports whether a body is text, by its beginning: who answers for the application says what kind it is when it does not."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(body or b"\xff")
    except UnicodeDecodeError:
        return False
    return b"\0" not in body


def pieces(event, call, status, headers, message):
    """Returns the event of an answer, and its pieces as the application sends them."""
    try:
        yield adaptor.reply(event, status, headers, b"")[0]
        while True:
            if message.get("body"):
                yield message["body"]
            if not message.get("more_body"):
                break
            message = call.next()
        call.end(status)
    finally:
        call.leave()


class Lifespan:
    """What the application does before its first request, and after its last one."""

    def __init__(self, app, state):
        self.events, self.said, self.task = asyncio.Queue(), asyncio.Queue(), None
        self.app, self.state, self.known = app, state, False

    async def begin(self):
        self.task = asyncio.ensure_future(self.run())
        await self.events.put({"type": "lifespan.startup"})
        message = await self.said.get()
        self.known = message["type"] == "lifespan.startup.complete"
        if message["type"] == "lifespan.startup.failed":
            return "the application did not start: " + (message.get("message") or "it did not say why")
        return None

    async def end(self):
        if self.known:
            await self.events.put({"type": "lifespan.shutdown"})
            await self.said.get()

    async def run(self):
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        try:
            await self.app(scope, self.events.get, self.said.put)
        except BaseException as error:  # it takes no part in a lifespan, as the specification lets it
            if self.known:
                adaptor.log(adaptor.trace_of(error))
        await self.said.put({"type": "over"})


class Call:
    """One request, and what the application answers. Its messages wait until they are taken."""

    def __init__(self, server, event):
        self.server, self.messages, self.taken = server, queue.SimpleQueue(), threading.Semaphore(0)
        self.body = body_of(event)
        self.over = self.left = False
        self.gone = None
        self.task = asyncio.run_coroutine_threadsafe(self.run(scope_of(event, server.state)), server.loop)
        self.task.add_done_callback(lambda _: self.messages.put(None))

    async def run(self, scope):
        self.gone, self.room = asyncio.Event(), asyncio.Semaphore(1)
        await self.server.app(scope, self.receive, self.send)

    async def receive(self):
        """Gives the application the next piece of the body; after the last one, that the client went away, when the answer is over."""
        while self.body is not None and not self.over and not self.left:
            loop = asyncio.get_running_loop()
            piece = await loop.run_in_executor(None, next, self.body, None)
            if piece is None:
                self.body = None
                return {"type": "http.request", "body": b"", "more_body": False}
            return {"type": "http.request", "body": piece, "more_body": True}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        """Takes a message of the application, when the one before was taken."""
        if self.over or self.left:
            return
        await self.room.acquire()
        self.messages.put(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self.over = True
            self.gone.set()

    def next(self):
        """Returns the next message. When the application ended without one, it raises the error that it ended with."""
        message = self.messages.get()
        if message is not None:
            self.server.loop.call_soon_threadsafe(self.room.release)
            return message
        error = self.task.exception()
        raise error if error is not None else adaptor.Fault("InvalidAnswer", "the application ended without an answer")

    def end(self, status):
        """Comes after the last message. What fails behind an answer is in the log; an error's reason is waited for, so that it is in its own."""
        if status >= 500:
            concurrent.futures.wait([self.task], PATIENCE)
        self.task.add_done_callback(lambda task: task.cancelled() or task.exception() is None or adaptor.log(adaptor.trace_of(task.exception())))

    def leave(self):
        """Lets the application know that nobody takes its answer any more."""
        if not self.over:
            self.left = True
            self.server.loop.call_soon_threadsafe(self.gone.set)
            self.server.loop.call_soon_threadsafe(self.room.release)


def body_of(event):
    """Returns the pieces of a request's body."""
    if isinstance(event.get("data"), adaptor.Body):
        return event["data"]
    whole = adaptor.body_of(event)
    return iter([whole] if whole else [])


def scope_of(event, state):
    """Returns what ASGI says of a request. An event that is none is a POST of its data."""
    protocol = adaptor.map_of(event, "protocol")
    url = urlsplit(protocol.get("request_url") or "/")
    raw = (url.path or "/").encode("ascii", "surrogateescape")
    secure = url.scheme == "https"
    headers, named = [], set()
    for name, values in (protocol.get("headers") or {}).items():
        name = name.lower()
        named.add(name)
        for value in ["; ".join(values)] if name == "cookie" else values:
            headers.append((name.encode("latin-1"), value.encode("utf-8")))
    for name, value in ("host", url.netloc), ("content-type", event.get("datacontenttype")):
        if value and name not in named:
            headers.append((name.encode(), value.encode("utf-8")))
    if "content-length" not in named and not isinstance(event.get("data"), adaptor.Body):
        headers.append((b"content-length", str(len(adaptor.body_of(event))).encode()))
    client = (protocol.get("headers") or {}).get("X-Forwarded-For")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": protocol.get("method") or "POST",
        "scheme": url.scheme or "http",
        "path": unquote_to_bytes(raw).decode("utf-8", "replace"),
        "raw_path": raw,
        "query_string": url.query.encode("ascii", "replace"),
        "root_path": "",
        "headers": headers,
        "client": (client[0], 0) if client else None,
        "server": (url.hostname or "localhost", url.port or (443 if secure else 80)),
        "state": state.copy(),
        "extensions": {},
        "landfall.config": adaptor.map_of(event, "config"),
    }


def main():
    sys.path[:] = [adaptor.ROOT] + [p for p in sys.path if p != adaptor.HERE]
    entry = sys.argv[1] if len(sys.argv) > 1 else "main.main"
    adaptor.serve(lambda: load(entry))


if __name__ == "__main__":
    main()
