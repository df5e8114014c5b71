"""What functions use of Flask, for packages that do not bring Flask itself. What it has answers as Flask does."""

import functools
import json as _json
import re
from contextlib import contextmanager
from urllib.parse import parse_qsl, quote, unquote_to_bytes

from _flask_values import Headers, ImmutableMultiDict

MOST_FIELDS = 10_000  # of a form or a query; a form with more is refused
MOST_HEADERS = 1_000  # of a request


def _needs(what):
    return f"{what} is not there without Flask itself; the function's package must bring it (pip install --target . flask)"


def __getattr__(name):
    if name in ("Markup", "escape", "render_template", "render_template_string"):
        import _flask_more  # which takes time to load, and few functions use it

        return getattr(_flask_more, name)
    if name.startswith("__"):
        raise AttributeError(name)
    raise ImportError(_needs("flask." + name))


def _fields(text):
    """Returns the names and values of a form or a query."""
    if text.count("&") >= MOST_FIELDS:
        raise HTTPException(413, f"the request has more than {MOST_FIELDS} fields")
    return parse_qsl(text, keep_blank_values=True, errors="replace")


# Errors


class HTTPException(Exception):
    """An answer that a function gives by raising it: abort(404)."""

    def __init__(self, code, description=None, response=None):
        super().__init__(description or f"status {code}")
        self.code, self.response = code, response
        self.description = description if description is not None else _phrase(code)[1]

    @property
    def name(self):
        return _phrase(self.code)[0]

    def get_response(self, environ=None, scope=None):
        if self.response is not None:
            return self.response
        from _flask_more import escape

        said = "" if not self.description else f"<p>{escape(self.description)}</p>".replace("\n", "<br>")
        title = f"{self.code} {escape(self.name)}"
        return Response(f"<!doctype html>\n<html lang=en>\n<title>{title}</title>\n<h1>{escape(self.name)}</h1>\n{said}\n", self.code)


class MissingKey(HTTPException, KeyError):
    """A parameter that a function needs and the request has not."""

    def __init__(self, name):
        super().__init__(400, f"the request has no {name!r}")


def _phrase(code):
    from http import HTTPStatus  # slow to load

    try:
        return HTTPStatus(code).phrase, HTTPStatus(code).description
    except ValueError:
        return "Unknown Error", ""


def abort(code, description=None, response=None):
    if isinstance(code, Response):
        raise HTTPException(code.status_code, response=code)
    if not 400 <= int(code) <= 599:
        raise LookupError(f"no exception for {code!r}")
    raise HTTPException(int(code), description, response)


def redirect(location, code=302, Response=None):
    from _flask_more import escape

    location = quote(location, safe="!#$%&'()*+,/:;=?@[]~")
    link = f"<!doctype html>\n<html lang=en>\n<title>Redirecting...</title>\n<h1>Redirecting...</h1>\n<p><a href=\"{escape(location)}\">{escape(location)}</a></p>\n"
    return (Response or globals()["Response"])(link, code, {"Location": location}, mimetype="text/html")


# JSON


def _json_form(value):
    import _flask_more

    return _flask_more.json_form(value)


class json:
    """What functions use of flask.json."""

    @staticmethod
    def dumps(value, **kwargs):
        return _json.dumps(value, **{"default": _json_form, "sort_keys": True, **kwargs})

    @staticmethod
    def dump(value, file, **kwargs):
        file.write(json.dumps(value, **kwargs))

    loads = staticmethod(_json.loads)
    load = staticmethod(_json.load)
    JSONDecodeError = _json.JSONDecodeError

    @staticmethod
    def jsonify(*args, **kwargs):
        return jsonify(*args, **kwargs)


def jsonify(*args, **kwargs):
    if args and kwargs:
        raise TypeError("jsonify takes values or names with values, not both")
    value = kwargs or (args[0] if len(args) == 1 else list(args) or None)
    return Response(json.dumps(value, separators=(",", ":")) + "\n", mimetype="application/json")


# Requests and answers


class Request:
    """The request that is being answered. There is one at a time."""

    @property
    def method(self):
        return self.environ["REQUEST_METHOD"]

    @property
    def path(self):
        return "/" + self.environ["PATH_INFO"].lstrip("/").encode("latin-1").decode("utf-8", "replace")

    @property
    def query_string(self):
        return self.environ["QUERY_STRING"].encode("latin-1")

    @property
    def full_path(self):
        return f"{self.path}?{self.query_string.decode('utf-8', 'replace')}"

    @property
    def scheme(self):
        return self.environ["wsgi.url_scheme"]

    @property
    def is_secure(self):
        return self.scheme == "https"

    @property
    def host(self):
        host = self.environ.get("HTTP_HOST") or self.environ["SERVER_NAME"]
        return host.removesuffix(":443" if self.is_secure else ":80")

    @property
    def host_url(self):
        return f"{self.scheme}://{self.host}/"

    root_url = url_root = host_url

    @property
    def base_url(self):
        return f"{self.scheme}://{self.host}{_readable(quote(self.path, safe=PLAIN))}"

    @property
    def url(self):
        query = self.environ["QUERY_STRING"]
        return self.base_url + ("?" + _readable(quote(query.encode("latin-1"), safe=PLAIN + "%?")) if query else "")

    @property
    def referrer(self):
        return self.environ.get("HTTP_REFERER")

    @property
    def origin(self):
        return self.environ.get("HTTP_ORIGIN")

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

    @property
    def user_agent(self):
        return UserAgent(self.environ.get("HTTP_USER_AGENT", ""))

    @property
    def authorization(self):
        value = self.environ.get("HTTP_AUTHORIZATION")
        if value is None:
            return None
        from _flask_more import authorization

        return authorization(value)

    @functools.cached_property
    def headers(self):
        found = []
        for key, value in self.environ.items():
            if key in ("CONTENT_TYPE", "CONTENT_LENGTH"):
                found.append((key.replace("_", "-").title(), value))
            elif key.startswith("HTTP_"):
                found.append((key[5:].replace("_", "-").title(), value))
        if len(found) > MOST_HEADERS:
            raise HTTPException(431, f"the request has more than {MOST_HEADERS} headers")
        return Headers(found)

    @functools.cached_property
    def args(self):
        return ImmutableMultiDict(_fields(self.environ["QUERY_STRING"]))

    @functools.cached_property
    def cookies(self):
        pairs = [c.strip().partition("=") for c in self.environ.get("HTTP_COOKIE", "").split(";")]
        return ImmutableMultiDict((name.strip(), _unquoted(value.strip())) for name, _, value in pairs if name)

    @property
    def stream(self):
        return self.environ["wsgi.input"]

    @property
    def data(self):
        return self.get_data(parse_form_data=True)

    @functools.cached_property
    def form(self):
        if self.mimetype not in ("application/x-www-form-urlencoded", "multipart/form-data"):
            return ImmutableMultiDict()
        body = self.stream.read() if self._body is None else self._body
        if self.mimetype == "multipart/form-data":
            from _flask_more import parts

            return ImmutableMultiDict(parts(self.content_type, body))
        return ImmutableMultiDict(_fields(body.decode("utf-8", "replace")))

    @functools.cached_property
    def values(self):
        more = self.form.items(multi=True) if self.method in ("POST", "PUT", "PATCH") else ()
        return ImmutableMultiDict([*self.args.items(multi=True), *more])

    _body = None  # what get_data has read

    def get_data(self, cache=True, as_text=False, parse_form_data=False):
        """Returns the body. It is empty when it was a form, and the form was read before it."""
        body = self._body
        if body is None:
            if parse_form_data:
                self.form
            body = self.stream.read()
            if cache:
                self._body = body
        return body.decode("utf-8", "replace") if as_text else body

    @property
    def json(self):
        return self.get_json()

    def get_json(self, force=False, silent=False, cache=True):
        if not force and not self.is_json:
            if silent:
                return None
            raise HTTPException(415, "the request's content type is not application/json")
        try:
            return _json.loads(self.get_data(cache=cache))
        except ValueError:
            if silent:
                return None
            raise HTTPException(400, "the request's body is no valid JSON") from None

    def __getattr__(self, name):
        if name == "environ":
            raise RuntimeError("there is no request any more; a generator that asks for it is wrapped: stream_with_context(generator())")
        raise AttributeError(_needs("flask.request." + name))


class UserAgent:
    """What a client calls itself."""

    platform = browser = version = language = None

    def __init__(self, string):
        self.string = string

    def __str__(self):
        return self.string

    def __bool__(self):
        return bool(self.browser)

    def to_header(self):
        return self.string


PLAIN = "!$&'()*+,/:;=@"


def _readable(url):
    """Returns a URL with the letters of all languages as people write them."""
    return re.sub("(?:%[89A-Fa-f][0-9A-Fa-f])+|%[2-7][0-9A-Fa-f]", _letters, url)


def _letters(found):
    text = unquote_to_bytes(found[0]).decode("utf-8", "surrogateescape")
    if text.isascii() and not text.isalnum() and text not in "-._~":
        return found[0]
    return re.sub("[\udc80-\udcff]", lambda byte: f"%{ord(byte[0]) - 0xDC00:02X}", text)


def _unquoted(value):
    """Returns the value of a cookie, which may stand in quotes."""
    if len(value) < 2 or not value[0] == value[-1] == '"':
        return value
    return re.sub(r"\\(?:([0-3][0-7][0-7])|(.))", lambda found: chr(int(found[1], 8)) if found[1] else found[2], value[1:-1])


request = Request()


class Globals:
    """What a function keeps while it answers one request: flask.g."""

    def get(self, name, default=None):
        return self.__dict__.get(name, default)

    def pop(self, name, *default):
        return self.__dict__.pop(name, *default)

    def setdefault(self, name, default=None):
        return self.__dict__.setdefault(name, default)

    def __contains__(self, name):
        return name in self.__dict__

    def __iter__(self):
        return iter(self.__dict__)


g = Globals()


TEXTS = ("application/xml", "application/xml-dtd", "application/javascript", "application/ecmascript", "application/sql")


class Response:
    """What a function answers."""

    default_mimetype = "text/html"

    def __init__(self, response=None, status=None, headers=None, mimetype=None, content_type=None, direct_passthrough=False):
        self.headers = Headers(headers)
        self.status_code = 200
        if status is not None:
            self.status = status
        if hasattr(response, "__next__"):
            self.response = response
        else:
            self.set_data(response if response is not None else "")
        if content_type is None and mimetype is None and "Content-Type" not in self.headers:
            mimetype = self.default_mimetype
        if content_type is not None:
            self.content_type = content_type
        elif mimetype is not None:
            self.mimetype = mimetype

    def __setattr__(self, name, value):
        if type(self) is Response and name not in ("headers", "response", "_code", "_reason") and not hasattr(Response, name):
            raise AttributeError(_needs("flask.Response." + name))
        super().__setattr__(name, value)

    def __getattr__(self, name):
        raise AttributeError(_needs("flask.Response." + name))

    @property
    def status(self):
        phrase = _phrase(self.status_code)[0].upper()
        return f"{self.status_code} {self._reason or ('UNKNOWN' if phrase == 'UNKNOWN ERROR' else phrase)}"

    @status.setter
    def status(self, value):
        code, _, reason = str(value if isinstance(value, str) else int(value)).strip().partition(" ")
        self.status_code = int(code)
        self._reason = reason

    @property
    def status_code(self):
        return self._code

    @status_code.setter
    def status_code(self, value):
        self._code, self._reason = value, ""

    @property
    def content_type(self):
        return self.headers.get("Content-Type")

    @content_type.setter
    def content_type(self, value):
        self.headers["Content-Type"] = value

    @property
    def mimetype(self):
        return (self.content_type or "").partition(";")[0].strip().lower()

    @mimetype.setter
    def mimetype(self, value):
        text = value.startswith("text/") or value.endswith("+xml") or value in TEXTS
        self.content_type = value + "; charset=utf-8" if text and "charset" not in value else value

    @property
    def location(self):
        return self.headers.get("Location")

    @location.setter
    def location(self, value):
        self.headers["Location"] = value

    @property
    def content_length(self):
        return self.headers.get("Content-Length", type=int)

    def set_cookie(self, *args, **kwargs):
        from _flask_more import cookie

        self.headers.add("Set-Cookie", cookie(*args, **kwargs))

    def delete_cookie(self, key, path="/", domain=None, **kwargs):
        self.set_cookie(key, max_age=0, expires=0, path=path, domain=domain, **kwargs)

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
    def is_json(self):
        return self.mimetype == "application/json" or self.mimetype.endswith("+json")

    @property
    def json(self):
        return self.get_json()

    def get_json(self, force=False, silent=False):
        return _json.loads(self.get_data()) if force or self.is_json else None


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

    def __getattr__(self, name):
        raise AttributeError(_needs("flask.Flask." + name))

    @functools.cached_property
    def logger(self):
        import logging

        logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
        return logging.getLogger(self.name)

    @contextmanager
    def request_context(self, environ):
        request.__dict__.clear()
        g.__dict__.clear()
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
        if isinstance(value, str) or hasattr(value, "__html__"):
            return Response(value.__html__() if hasattr(value, "__html__") else value)
        if isinstance(value, (bytes, bytearray)) or hasattr(value, "__next__"):
            return Response(value)
        raise TypeError(
            f"the function returned a value of type {type(value).__name__}; return a string, bytes, a dict, a list or a Response"
        )


current_app = Flask("function")
