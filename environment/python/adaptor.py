"""Runs a function in Python: reads an event from each line of standard input, and answers it on standard output.

    echo '{"specversion":"1.0","id":"1","source":"/me","type":"greet"}' | python3 .landfall/adaptor.py main.main

The function's folder is the current one. What the function prints goes to standard error, which is its log.
"""

import _thread
import binascii
import importlib
import io
import json
import os
import re
import sys
import time
from types import FunctionType

ROOT = os.getcwd()
HERE = os.path.dirname(os.path.abspath(__file__))
MAPS = ("protocol", "config", "trigger", "error")
FIELDS = {  # what 0.1 calls the attributes of 1.0
    "event-id": "id", "source": "source", "event-type": "type", "event-type-version": "eventtypeversion", "event-time": "time",
    "schema-url": "dataschema", "content-type": "datacontenttype", "data": "data",
}
NAMES = {name: field for field, name in FIELDS.items()}
STREAMS = "LANDFALL_STREAM_BODY" in os.environ  # the function's data is a Body, whatever way it came

ENDS = (SystemExit, KeyboardInterrupt)  # which end the process

decode = json.JSONDecoder().decode
encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode

TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
MEDIA_TYPE = rf'{TOKEN}/{TOKEN}(\s*;\s*{TOKEN}=({TOKEN}|"[^"\\]*"))*\s*;?\s*'
CONTROL = r"[\x00-\x08\x0a-\x1f\x7f]"


class Fault(Exception):
    """An error whose trace would tell nothing: it is about what the function is or returned, not about a line of it."""

    def __init__(self, type, message):
        super().__init__(message)
        self.type = type


class Body(io.RawIOBase):
    """The data of an event that follows it in parts. It is read as a file, or piece by piece in a loop."""

    def __init__(self, lines, follows=True, have=b""):
        self.lines, self.have, self.over, self.failure = lines, have, not follows, None
        self.unsaid = follows  # that all was read
        self.lock = _thread.allocate_lock()  # what is behind the last part is another event

    def take(self):
        """Reads the next part. It returns False at the end."""
        with self.lock:
            while not self.have:
                if self.over:
                    return False
                part = decode((self.lines.readline() or b'{"error":{"message":"standard input has ended"}}').decode())
                self.over = "last" in part or "error" in part
                self.have = body_of({"datacontenttype": "text/plain", **part})
                if "error" in part:
                    self.failure = part["error"]
            return True

    def check(self):
        if self.failure is not None:
            raise Fault("BrokenBody", f"the body of the request broke off: {self.failure.get('message')}")

    def readable(self):
        return True

    def readinto(self, room):
        if not self.take():
            self.check()
            return 0
        n = min(len(room), len(self.have))
        room[:n], self.have = self.have[:n], self.have[n:]
        return n

    def __next__(self):
        if not self.take():
            self.check()
            raise StopIteration
        piece, self.have = self.have, b""
        return piece

    def drain(self):
        """Reads what the function did not."""
        while self.take():
            self.have = b""


def read(body):
    """Returns what an answer says of a body that was read to its end: this process may get the next event."""
    if body is None or not body.unsaid or not body.over:
        return {}
    body.unsaid = False
    return {"dataread": True}


def follow(event, lines):
    """Makes the data of an event a Body, and returns it."""
    follows = event.pop("datafollows", False) is True
    body = Body(lines, follows, b"" if follows else body_of(event))
    event.pop("data_base64", None)
    event["data"] = body
    return body


def streams():
    """Takes standard input and output away from the function, whose own are then empty and its log."""
    events, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return open(events, "rb", 1 << 16), answers


def serve(load):
    """Answers events to the end of standard input. load returns a function from an event to its answer and raw data."""
    events, answers = streams()
    handle, failure = attempt(load)
    for line in events:
        if line.isspace():
            continue
        if handle is None and failure is None:
            handle, failure = attempt(load)  # what it lacked may be there by now
        event, body = {}, None
        try:
            event = parse(line)
            if STREAMS or "datafollows" in event:
                body = follow(event, events)
            if failure is not None:
                raise failure
            made = handle(event)
            if isinstance(made, Pieces):
                try:
                    out = stream(event, made, answers, body)
                finally:
                    made.close()
            else:
                made[0].update(read(body))
                out = text(*made)
        except ENDS:
            raise
        except BaseException as error:  # also of a task that was cancelled
            out = text({**failed(event, error), **read(body)}, None, "replace")
            failure = None
        flush()
        write(answers, out)
        if body is not None and body.unsaid:
            body.drain()
            write(answers, text(read(body)))


def flush():
    """Writes what the log holds back. The function may have made anything of it."""
    try:
        sys.stderr.flush()
    except Exception:
        pass


def write(answers, out):
    while out:
        out = out[os.write(answers, out):]


class Pieces:
    """What a generator yields, also an async one."""

    def __init__(self, made):
        self.made = made

    def __iter__(self):
        return self

    def __next__(self):
        if not hasattr(self.made, "__anext__"):
            return next(self.made)
        try:
            return awaited(self.made.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self):
        """Ends what was not taken to its end, as a loop does that is left."""
        try:
            if hasattr(self.made, "aclose"):
                awaited(self.made.aclose())
            elif hasattr(self.made, "close"):
                self.made.close()
        except Exception as error:
            print(trace_of(error), file=sys.stderr)


def stream(event, pieces, answers, body):
    """Writes an answer and its pieces as they are made, and returns the last one. Until the first one is made, nothing is written."""
    first = next(pieces, "")
    if isinstance(first, dict) and "specversion" in first:
        answer, _ = returned(event, first)
        first = None
    else:
        answer = answer_to(event)
        answer["datacontenttype"] = "application/octet-stream" if isinstance(first, (bytes, bytearray)) else "text/plain; charset=utf-8"
        first = piece(first)
    answer["protocol"] = encode({"type": "http", **map_of(answer, "protocol"), "streaming": True})
    write(answers, text(answer) if first is None else text(answer) + first)
    try:
        for one in pieces:
            flush()
            write(answers, piece(one))
    except ENDS:
        raise
    except BaseException as error:
        return text({"error": decode(failed(event, error)["error"]), **read(body)}, None, "replace")
    return text({"last": True, **read(body)})


def piece(one):
    """Returns a piece of an answer as a line."""
    if isinstance(one, str):
        return text({"data": one})
    if isinstance(one, (bytes, bytearray)):
        return text({"data_base64": base64(one)})
    raise Fault("InvalidAnswer", f"the function yielded a {type(one).__name__}; right would be text or bytes, and first of all an event")


def attempt(load):
    """Returns what load returns, or why not."""
    try:
        return load(), None
    except Exception as error:
        return None, error


draft = False  # the event that is answered is of 0.1, and so is its answer


def parse(line):
    global draft
    try:
        event = decode(line.decode())
    except ValueError:
        event = None
    draft = isinstance(event, dict) and "cloud-events-version" in event
    if not isinstance(event, dict):
        raise Fault("InvalidEvent", "standard input must have one event as a JSON object on each line")
    return newer(event) if draft else event


def newer(old):
    """Returns an event of 0.1 as one of 1.0, which has no maps but JSON of them."""
    event = {"specversion": "1.0", **{FIELDS[name]: value for name, value in old.items() if name in FIELDS}}
    for name, value in {"error": old.get("error"), **(old.get("extensions") or {})}.items():
        if value is not None:
            event[name.lower()] = encode(value) if isinstance(value, (dict, list)) else value
    if event.get("encoding") == "base64":
        del event["encoding"]
        event["data_base64"] = event.pop("data", None)
    return event


def older(answer):
    """Returns an answer as an event of 0.1."""
    old, extensions = {"cloud-events-version": "0.1"}, {}
    for name, value in answer.items():
        if name in NAMES:
            old[NAMES[name]] = value
        elif name == "data_base64":
            old["data"], extensions["encoding"] = value, "base64"
        elif name == "error":
            old["error"] = map_of(answer, "error")
        elif name != "specversion":
            extensions[name] = map_of(answer, name) if name in MAPS else value
    return {**old, "extensions": extensions} if extensions else old


def text(answer, raw=None, errors="strict"):
    """Returns an answer as a line. raw is data that is JSON already."""
    out = encode(older(answer) if draft and "specversion" in answer else answer)
    if raw is not None:
        out = out[:-1] + ',"data":' + raw + "}"
    return (out + "\n").encode("utf-8", errors)


def answer_to(event):
    """Returns an answer with nothing in it."""
    answer = {
        "specversion": "1.0",
        "id": os.urandom(16).hex(),
        "source": event.get("source") or "/",
        "type": event.get("type") or "answer",
    }
    for name in ("eventtypeversion", "execution"):
        if name in event:
            answer[name] = event[name]
    return answer


# Errors


def failed(event, error):
    """Returns the answer that is an error. It is in the log, too."""
    kind = getattr(error, "type", None) if isinstance(error, Fault) else type(error).__name__
    trace = "" if isinstance(error, Fault) else trace_of(error)
    message = said(error) or kind
    if isinstance(error, ModuleNotFoundError):
        message += "; a module that Python does not have itself must be in the package (pip install --target)"
    log(trace if message in trace else f"{trace}\n{kind}: {message}".lstrip())
    answer = answer_to(event)
    answer["time"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    answer["datacontenttype"] = "application/json"  # an error is JSON
    answer["error"] = encode({"message": message, "type": kind, "trace": trace})
    headers = {"Content-Type": [answer["datacontenttype"]]}
    answer["protocol"] = encode({"type": "http", "status_code": 500, "headers": headers})
    return answer


def said(error):
    """Returns the text of an error, if it has one."""
    try:
        return str(error)
    except Exception as another:
        return f"the error has no text: its __str__ raised {type(another).__name__}"


def log(line):
    """Writes a line to the log, which the function may have closed."""
    try:
        print(line, file=sys.stderr)
    except Exception:
        pass


def trace_of(error):
    """Returns the frames of the function, without those of what calls it."""
    import traceback  # slow to load

    told = traceback.TracebackException.from_exception(error)
    todo = [told]
    while todo:
        one = todo.pop()
        frames = [f for f in one.stack if not f.filename.startswith((HERE, __file__, "<frozen ", os.path.dirname(importlib.__file__)))]
        one.stack = traceback.StackSummary.from_list(frames)
        todo += [e for e in (one.__cause__, one.__context__) if e is not None]
    return "".join(told.format()).replace(f'File "{ROOT}/', 'File "').rstrip()  # what was written and said stays as it is


# Functions


def find(entry):
    """Returns the function that an entry point names: module.function."""
    module_name, _, name = entry.rpartition(".")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise
        path = module_name.replace(".", "/")
        there = sorted(n for n in os.listdir(ROOT) if not n.startswith((".", "__")))
        raise Fault(
            "MissingHandler",
            f"there is no module {module_name} in the package: neither {path}.py nor {path}/__init__.py; "
            f"the package has: {listed(there)}",
        ) from None
    function = getattr(module, name, None)
    if not callable(function):
        there = sorted(n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module_name)
        raise Fault("MissingHandler", f"the module {module_name} has no function {name}; it has: {listed(there)}")
    return function


def listed(names):
    most = 20
    return ", ".join(names[:most]) + (", …" if len(names) > most else "") if names else "nothing"


def parameters(function):
    """Returns how many arguments a function takes."""
    if type(function) is FunctionType and not hasattr(function, "__wrapped__"):
        return function.__code__.co_argcount
    import inspect  # slow to load

    try:
        taken = inspect.signature(function).parameters.values()
    except ValueError:
        return 1  # it is not written in Python
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in taken)


def load_function(entry):
    """Returns what answers events by a function: one without parameters is asked as Flask does, one with one gets the event."""
    function = find(entry)
    taken = parameters(function)
    if taken == 3:
        sys.modules.setdefault("adaptor", sys.modules[__name__])  # which is __main__ here
        import landfall_asgi  # slow to load

        if landfall_asgi.is_application(function):
            return landfall_asgi.answering(entry, function)
    if taken > 1:
        raise Fault(
            "WrongHandler",
            f"{entry} takes {taken} parameters; a function takes none, and asks flask.request, or one, which is the event; "
            "an ASGI application takes three",
        )
    if taken == 1:
        return lambda event: returned(event, awaited(function(opened(event))))
    import flask

    app = flask.Flask("function")

    def handle(event):
        with app.request_context(environ(event)):
            try:
                value = awaited(function())
                if hasattr(value, "__anext__"):
                    value = Pieces(value)
            except Exception as error:
                if not hasattr(error, "get_response"):
                    raise
                value = error  # abort(404)
            response = app.make_response(value)
            if getattr(response, "is_streamed", False):
                return Pieces(streamed(event, response))
            return reply(event, response.status_code, response.headers.items(), response.get_data())

    return handle


def streamed(event, response):
    """Returns the answer's event and the pieces of a response that a generator makes. Before its first one is made there is neither."""
    answer, _ = reply(event, response.status_code, response.headers.items(), b"")
    try:
        pieces = iter(response.iter_encoded())
        first = next(pieces, b"")
        yield answer
        yield first
        yield from pieces
    finally:
        response.close()


loop = None


def awaited(value):
    """Waits for what an async function promised."""
    if not hasattr(value, "__await__"):
        return value
    import asyncio  # slow to load

    global loop
    loop = loop or asyncio.new_event_loop()

    async def wait():
        return await value

    return loop.run_until_complete(wait())


def opened(event):
    """Returns an event whose data is a value or a text where it is one, also when it came as base64."""
    if "data_base64" not in event:
        return event
    kind = event.get("datacontenttype")
    if not is_json(kind) and not kind.startswith("text/"):
        return event
    try:
        data = body_of(event).decode()
        event = {**event, "data": decode(data) if is_json(kind) else data}
    except ValueError:
        return event
    del event["data_base64"]
    return event


def returned(event, value):
    """Makes an answer of what a function returned that got an event."""
    if hasattr(value, "__anext__") or (hasattr(value, "__next__") and hasattr(value, "send")):
        return Pieces(value)
    answer = answer_to(event)
    if isinstance(value, dict) and "specversion" in value:
        answer.update(value)
        if "data_base64" not in value and isinstance(value.get("data"), (bytes, bytearray)):
            answer["data_base64"] = base64(answer.pop("data"))
        check_attributes(answer)
    elif isinstance(value, str):
        answer.update(datacontenttype="text/plain; charset=utf-8", data=value)
    elif isinstance(value, (bytes, bytearray)):
        answer.update(datacontenttype="application/octet-stream", data_base64=base64(value))
    elif value is not None:
        answer.update(datacontenttype="application/json", data=value)
    return answer, None


def check_attributes(answer):
    """Writes maps as JSON, and refuses what no event can have."""
    for name, value in answer.items():
        if name in ("data", "data_base64"):
            continue
        if name in MAPS and isinstance(value, dict):
            answer[name] = encode(value)
        elif not re.fullmatch("[a-z0-9]+", name):
            raise Fault("InvalidAnswer", f"the event that the function returned has the attribute {name!r}; a name has only a to z and 0 to 9")
        elif not (value is None or isinstance(value, (str, bool)) or (isinstance(value, int) and -1 << 31 <= value < 1 << 31)):
            raise Fault("InvalidAnswer", f"the event that the function returned has a {type(value).__name__} as its attribute {name}; it must be a string, a whole number or a bool")


# HTTP


def environ(event):
    """Returns an HTTP request as WSGI has it. An event that is none is a POST of its data."""
    from urllib.parse import unquote_to_bytes, urlsplit  # slow to load, and of no use to functions that get events

    protocol = map_of(event, "protocol")
    url = urlsplit(protocol.get("request_url") or "/")
    stream = isinstance(event.get("data"), Body)
    body = b"" if stream else body_of(event)
    made = {
        "REQUEST_METHOD": protocol.get("method") or "POST",
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(url.path or "/").decode("latin-1"),
        "QUERY_STRING": url.query,
        "REQUEST_URI": (url.path or "/") + ("?" + url.query if url.query else ""),
        "SERVER_NAME": url.hostname or "localhost",
        "SERVER_PORT": str(url.port or (443 if url.scheme == "https" else 80)),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": url.scheme or "http",
        "wsgi.input": io.BufferedReader(event["data"], 1 << 16) if stream else io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": False,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        "landfall.config": map_of(event, "config"),
    }
    if stream:
        made["wsgi.input_terminated"] = True  # it has an end, whatever is said of its length
    else:
        made["CONTENT_LENGTH"] = str(len(body))
    if url.netloc:
        made["HTTP_HOST"] = url.netloc
    if body or "datacontenttype" in event:
        made["CONTENT_TYPE"] = event.get("datacontenttype") or "application/json"
    for name, values in (protocol.get("headers") or {}).items():
        name = name.upper().replace("-", "_")
        # A program would take HTTP_PROXY for its proxy's address.
        if name == "X_FORWARDED_FOR" and values:  # what the gateway says, and nobody else
            made["REMOTE_ADDR"] = values[-1].rpartition(",")[2].strip()
        if name not in ("CONTENT_LENGTH", "CONTENT_TYPE", "PROXY"):
            made["HTTP_" + name] = ("; " if name == "COOKIE" else ", ").join(values)
        elif name == "CONTENT_TYPE" and values:
            made["CONTENT_TYPE"] = values[0]
        elif name == "CONTENT_LENGTH" and values and stream:
            made["CONTENT_LENGTH"] = values[0]
    return made


def map_of(event, name):
    """Returns an attribute that is a map, or JSON of one."""
    value = event.get(name) or {}
    return decode(value) if isinstance(value, str) else value


def body_of(event):
    """Returns an event's data as bytes."""
    if isinstance(event.get("data"), Body):
        return event["data"].read()
    if "data_base64" in event:
        return binascii.a2b_base64(event["data_base64"] or "")
    if event.get("data") is None:
        return b""
    if isinstance(event["data"], str) and not is_json(event.get("datacontenttype")):
        return event["data"].encode()
    return encode(event["data"]).encode()


def base64(data):
    return binascii.b2a_base64(data, newline=False).decode()


def is_json(content_type):
    """Reports whether data of a type stands in an event as it is. Data without a type does."""
    if content_type in (None, "application/json"):
        return True
    kind = content_type.partition(";")[0].strip().lower()
    return kind in ("application/json", "text/json") or kind.endswith("+json")


def reply(event, status, headers, body):
    """Makes an answer to an HTTP request."""
    if not isinstance(status, int) or not 200 <= status <= 599:
        raise Fault("InvalidAnswer", f"the function returned the status {status}; a status is a number from 200 to 599")
    answer, kept, kind = answer_to(event), {}, None
    for name, value in headers:
        if not re.fullmatch(TOKEN, name) or re.search(CONTROL, value):
            raise Fault("InvalidAnswer", f"the function returned the header {name!r}: {value!r}, which HTTP cannot have")
        if name.lower() == "content-type":
            if not re.fullmatch(MEDIA_TYPE, value):
                raise Fault("InvalidAnswer", f"the function returned the content type {value!r}; one looks like text/html; charset=utf-8")
            answer["datacontenttype"] = kind = value
        if name.lower() != "content-length":
            kept.setdefault(name, []).append(value)
    answer["protocol"] = encode({"type": "http", "status_code": status, "headers": kept})
    if not body:
        return answer, None
    raw = None
    try:
        data = body.decode()
        if not is_json(kind):
            answer["data"] = data
        else:
            raw = plain_json(data)
    except ValueError:
        answer["data_base64"] = base64(body)
    return answer, raw


def refuse(constant):
    raise ValueError(constant)


check = json.JSONDecoder(parse_constant=refuse).decode


def plain_json(data):
    """Returns text that is JSON for every reader, and raises ValueError for other text."""
    try:
        check(data)
    except RecursionError:
        raise ValueError("too deep") from None
    if "\\ud" in data or "\\uD" in data:
        raise ValueError("halves of a character")
    return data.strip()


def main():
    sys.path[:] = [ROOT] + [p for p in sys.path if p != HERE] + [HERE]  # ours is the flask of who has none
    entry = sys.argv[1] if len(sys.argv) > 1 else "main.main"
    serve(lambda: load_function(entry))


if __name__ == "__main__":
    main()
