"""What functions use of Flask, for packages that do not bring Flask itself."""

import functools
import json
from contextlib import contextmanager
from urllib.parse import parse_qsl, quote


class MultiDict:
    """Names with one value or several."""

    def __init__(self, pairs=()):
        self._pairs = [(name, value) for name, value in (pairs.items() if hasattr(pairs, "items") else pairs)]

    def _same(self, name):
        return name

    def getlist(self, name):
        return [v for n, v in self._pairs if self._same(n) == self._same(name)]

    def get(self, name, default=None, type=None):
        found = self.getlist(name)
        if not found:
            return default
        if type is None:
            return found[0]
        try:
            return type(found[0])
        except ValueError:
            return default

    def __getitem__(self, name):
        found = self.getlist(name)
        if not found:
            raise MissingKey(name)
        return found[0]

    def __contains__(self, name):
        return bool(self.getlist(name))

    def __iter__(self):
        return iter(dict(self._pairs))

    def __len__(self):
        return len(dict(self._pairs))

    def keys(self):
        return dict(self._pairs).keys()

    def values(self):
        return [self[name] for name in self]

    def items(self, multi=False):
        return list(self._pairs) if multi else [(name, self[name]) for name in self]

    def to_dict(self, flat=True):
        return {name: self[name] if flat else self.getlist(name) for name in self}

    def __repr__(self):
        return f"{type(self).__name__}({self._pairs!r})"


class Headers(MultiDict):
    """Header fields: their names have no case."""

    def _same(self, name):
        return name.lower()

    def items(self):
        return list(self._pairs)

    def add(self, name, value):
        self._pairs.append((name, str(value)))

    def set(self, name, value):
        self._pairs = [(n, v) for n, v in self._pairs if n.lower() != name.lower()]
        self.add(name, value)

    __setitem__ = set

    def __delitem__(self, name):
        self._pairs = [(n, v) for n, v in self._pairs if n.lower() != name.lower()]

    def setdefault(self, name, value):
        if name not in self:
            self.add(name, value)
        return self[name]

    def extend(self, more):
        for name, value in more.items() if hasattr(more, "items") else more:
            for one in value if isinstance(value, (list, tuple)) else [value]:
                self.add(name, one)

    def update(self, more):
        for name, value in more.items() if hasattr(more, "items") else more:
            self.set(name, value)


class HTTPException(Exception):
    """An answer that a function gives by raising it: abort(404)."""

    def __init__(self, code, description=None):
        super().__init__(description or f"status {code}")
        self.code, self.description = code, description or ""

    def get_response(self):
        return Response(self.description, self.code, mimetype="text/plain")


class MissingKey(HTTPException, KeyError):
    """A parameter that a function needs and the request has not."""

    def __init__(self, name):
        super().__init__(400, f"the request has no {name!r}")


def abort(code, description=None):
    raise HTTPException(code, description)


def redirect(location, code=302):
    return Response("", code, {"Location": quote(location, safe="!#$%&'()*+,/:;=?@[]~")})


class Request:
    """The request that is being answered. There is one at a time."""

    @property
    def method(self):
        return self.environ["REQUEST_METHOD"]

    @property
    def path(self):
        return self.environ["PATH_INFO"].encode("latin-1").decode("utf-8", "replace")

    @property
    def query_string(self):
        return self.environ["QUERY_STRING"].encode()

    @property
    def full_path(self):
        return self.path + "?" + self.environ["QUERY_STRING"]

    @property
    def scheme(self):
        return self.environ["wsgi.url_scheme"]

    @property
    def host(self):
        return self.environ.get("HTTP_HOST") or self.environ["SERVER_NAME"]

    @property
    def host_url(self):
        return f"{self.scheme}://{self.host}/"

    @property
    def base_url(self):
        return f"{self.scheme}://{self.host}{self.environ['REQUEST_URI'].partition('?')[0]}"

    @property
    def url(self):
        return f"{self.scheme}://{self.host}{self.environ['REQUEST_URI']}"

    @property
    def content_type(self):
        return self.environ.get("CONTENT_TYPE")

    @property
    def content_length(self):
        length = self.environ.get("CONTENT_LENGTH")
        return None if length is None else int(length)

    @property
    def mimetype(self):
        return (self.content_type or "").partition(";")[0].strip().lower()

    @property
    def is_json(self):
        return self.mimetype == "application/json" or self.mimetype.endswith("+json")

    @property
    def remote_addr(self):
        return self.environ.get("REMOTE_ADDR")

    @functools.cached_property
    def headers(self):
        names = [("Content-Type", "CONTENT_TYPE"), ("Content-Length", "CONTENT_LENGTH")]
        names += [(key[5:].replace("_", "-").title(), key) for key in self.environ if key.startswith("HTTP_")]
        return Headers([(name, self.environ[key]) for name, key in names if key in self.environ])

    @functools.cached_property
    def args(self):
        return MultiDict(parse_qsl(self.environ["QUERY_STRING"], keep_blank_values=True))

    @functools.cached_property
    def cookies(self):
        pairs = [c.strip().partition("=") for c in self.environ.get("HTTP_COOKIE", "").split(";")]
        return MultiDict([(name, value.strip('"')) for name, _, value in pairs if name])

    @property
    def stream(self):
        return self.environ["wsgi.input"]

    @functools.cached_property
    def data(self):
        return self.environ["wsgi.input"].read()

    @functools.cached_property
    def form(self):
        if self.mimetype == "multipart/form-data":
            raise HTTPException(415, "for forms with files the function's package must bring Flask itself")
        if self.mimetype != "application/x-www-form-urlencoded":
            return MultiDict()
        return MultiDict(parse_qsl(self.get_data(as_text=True), keep_blank_values=True))

    @property
    def values(self):
        return MultiDict(self.args.items(multi=True) + self.form.items(multi=True))

    def get_data(self, cache=True, as_text=False, parse_form_data=False):
        return self.data.decode("utf-8", "replace") if as_text else self.data

    @property
    def json(self):
        return self.get_json()

    def get_json(self, force=False, silent=False, cache=True):
        if not force and not self.is_json:
            if silent:
                return None
            raise HTTPException(415, "the request's content type is not application/json")
        try:
            return json.loads(self.data)
        except ValueError:
            if silent:
                return None
            raise HTTPException(400, "the request's body is no valid JSON") from None

    def __getattr__(self, name):
        if name == "environ":
            raise RuntimeError("there is no request any more; a generator that asks for it is wrapped: stream_with_context(generator())")
        raise AttributeError(f"flask.request has no {name} here; a function that needs it brings Flask in its package")


request = Request()


class Response:
    """What a function answers."""

    default_mimetype = "text/html"

    def __init__(self, response=None, status=None, headers=None, mimetype=None, content_type=None):
        self.headers = Headers()
        if headers:
            self.headers.extend(headers)
        self.status_code = 200
        if status is not None:
            self.status = status
        if hasattr(response, "__next__"):
            self.response = response
        else:
            self.set_data(response if response is not None else "")
        mimetype = mimetype or self.default_mimetype
        if content_type is None and mimetype.startswith("text/"):
            content_type = mimetype + "; charset=utf-8"
        if content_type or "Content-Type" not in self.headers:
            self.headers.setdefault("Content-Type", content_type or mimetype)

    @property
    def status(self):
        return str(self.status_code)

    @status.setter
    def status(self, value):
        self.status_code = int(value.split()[0]) if isinstance(value, str) else int(value)

    @property
    def content_type(self):
        return self.headers.get("Content-Type")

    @content_type.setter
    def content_type(self, value):
        self.headers["Content-Type"] = value

    @property
    def mimetype(self):
        return (self.content_type or "").partition(";")[0].strip()

    @mimetype.setter
    def mimetype(self, value):
        self.content_type = value + "; charset=utf-8" if value.startswith("text/") else value

    def set_data(self, value):
        if not isinstance(value, (str, bytes, bytearray)):
            value = b"".join(piece.encode() if isinstance(piece, str) else piece for piece in value)
        self.response = [value.encode() if isinstance(value, str) else bytes(value)]

    def get_data(self, as_text=False):
        if self.is_streamed:
            self.set_data(b"".join(self.iter_encoded()))
        data = self.response[0]
        return data.decode() if as_text else data

    data = property(get_data, set_data)

    @property
    def is_streamed(self):
        return not isinstance(self.response, list)

    def iter_encoded(self):
        return (piece.encode() if isinstance(piece, str) else piece for piece in self.response)

    def close(self):
        if hasattr(self.response, "close"):
            self.response.close()

    @property
    def json(self):
        return json.loads(self.get_data())


def jsonify(*args, **kwargs):
    value = kwargs or (args[0] if len(args) == 1 else list(args))
    return Response(json.dumps(value), mimetype="application/json")


def stream_with_context(made):
    """Lets a generator, or one that a function returns, ask for the request while its pieces go out."""
    if not hasattr(made, "__next__"):
        return functools.wraps(made)(lambda *args, **kwargs: stream_with_context(made(*args, **kwargs)))
    held = dict(request.__dict__)

    def pieces():
        request.__dict__.update(held)
        try:
            yield from made
        finally:
            request.__dict__.clear()

    return pieces()


def make_response(*args):
    return current_app.make_response(args[0] if len(args) == 1 else args or "")


class Flask:
    """What stands for the application around the one function that there is."""

    def __init__(self, name):
        self.name, self.config = name, {}

    @functools.cached_property
    def logger(self):
        import logging

        logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
        return logging.getLogger(self.name)

    @contextmanager
    def request_context(self, environ):
        request.__dict__.clear()
        request.environ = environ
        try:
            yield
        finally:
            request.__dict__.clear()

    def make_response(self, value):
        status = headers = None
        if isinstance(value, tuple):
            if len(value) == 3:
                value, status, headers = value
            elif len(value) == 2 and isinstance(value[1], (dict, list, tuple, Headers)):
                value, headers = value
            elif len(value) == 2:
                value, status = value
            else:
                raise TypeError("a function returns a body, (body, status), (body, headers) or (body, status, headers)")
        if value is None:
            raise TypeError("the function returned None; return a string, bytes, a dict, a list or a Response")
        response = self._respond(value)
        if status is not None:
            response.status = status
        if headers:
            response.headers.update(headers)
        return response

    def _respond(self, value):
        if isinstance(value, Response):
            return value
        if isinstance(value, HTTPException):
            return value.get_response()
        if isinstance(value, (dict, list)):
            return jsonify(value)
        if isinstance(value, (str, bytes, bytearray)) or hasattr(value, "__next__"):
            return Response(value)
        raise TypeError(
            f"the function returned a value of type {type(value).__name__}; return a string, bytes, a dict, a list or a Response"
        )


current_app = Flask("function")
