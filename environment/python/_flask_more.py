"""The parts of flask.py that few functions use, and that take time to load."""

import functools
import os
import re
import time

import flask


def json_form(value):
    """Returns what stands in JSON for a value that JSON has no form for."""
    kinds = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(value).__mro__}
    if "datetime.date" in kinds:
        return http_date(value)
    if kinds & {"decimal.Decimal", "uuid.UUID"}:
        return str(value)
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        import dataclasses  # slow to load

        return dataclasses.asdict(value)
    if hasattr(value, "__html__"):
        return str(value.__html__())
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def http_date(value):
    """Returns a date or a time as HTTP writes it. A time without a zone is in UTC."""
    import datetime

    if not isinstance(value, datetime.datetime):
        value = datetime.datetime.combine(value, datetime.time())
    elif value.tzinfo is not None:
        value = value.astimezone(datetime.timezone.utc)
    day = "Mon Tue Wed Thu Fri Sat Sun".split()[value.weekday()]
    month = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()[value.month - 1]
    return f"{day}, {value.day:02} {month} {value.year:04} {value:%H:%M:%S} GMT"


def cookie(key, value="", max_age=None, expires=None, path="/", domain=None, secure=False, httponly=False, samesite=None):
    """Returns the header that sets a cookie."""
    import datetime

    if hasattr(max_age, "total_seconds"):
        max_age = int(max_age.total_seconds())
    if expires is None and max_age is not None:
        expires = time.time() + max_age
    if isinstance(expires, (int, float)):
        expires = datetime.datetime.fromtimestamp(expires, datetime.timezone.utc)
    if expires is not None and not isinstance(expires, str):
        expires = http_date(expires)
    if not re.fullmatch(r"[!#$%&'()*+./0-9:<=>?@A-Z\[\]^_`a-z{|}~-]*", value):
        value = '"' + re.sub(r'[^ -~]|[";,\\]', _quoted, value) + '"'
    said = {"Domain": domain, "Expires": expires, "Max-Age": max_age, "Secure": secure, "HttpOnly": httponly, "Path": path, "SameSite": samesite}
    parts = [name if one is True else f"{name}={one}" for name, one in said.items() if one is not None and one is not False]
    return "; ".join([f"{key}={value}", *parts])


def _quoted(found):
    if found[0] in '"\\':
        return "\\" + found[0]
    return "".join(f"\\{byte:03o}" for byte in found[0].encode())


class Authorization(dict):
    """Who asks: a type, and a name and a password, or a token."""

    def __init__(self, type, data=(), token=None):
        super().__init__(data)
        self.type, self.token = type, token

    parameters = property(lambda self: dict(self))
    username = property(lambda self: self.get("username"))
    password = property(lambda self: self.get("password"))


def authorization(value):
    """Returns what a header Authorization says; None for one that cannot be read."""
    import binascii

    kind, _, rest = value.strip().partition(" ")
    kind, rest = kind.lower(), rest.strip()
    if kind != "basic":
        return Authorization(kind, token=rest) if rest else None
    try:
        name, colon, password = binascii.a2b_base64(rest).partition(b":")
    except binascii.Error:
        return None
    return Authorization(kind, {"username": name.decode("utf-8", "replace"), "password": password.decode("utf-8", "replace")}) if colon else None


def parts(content_type, body):
    """Returns the names and values of a form in parts; nothing of one that is broken."""
    from email.message import Message  # slow to load
    from email.parser import HeaderParser

    whole = Message()
    whole["Content-Type"] = content_type
    boundary = (whole.get_boundary() or "").encode("latin-1", "replace")
    if not boundary:
        return []
    if body.count(b"\r\n--" + boundary) > flask.MOST_FIELDS:
        raise flask.HTTPException(413, f"the request has more than {flask.MOST_FIELDS} fields")
    _, *pieces = re.split(rb"(?:^|\r\n)--" + re.escape(boundary) + rb"(--)?[ \t]*(?=\r\n|\Z)", body)
    found = []
    for last, part in zip(pieces[::2], pieces[1::2]):
        if last:
            return found
        head, _, value = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        said = HeaderParser().parsestr(head.decode("latin-1"))
        name, file = (_parameter(said.get_param(key, header="content-disposition")) for key in ("name", "filename"))
        if file or file is not None and value:  # without both, nobody chose a file
            raise flask.HTTPException(415, "for forms with files the function's package must bring Flask itself")
        if name is not None and file is None:
            found.append((name, value.decode(_known(said.get_content_charset("utf-8")), "replace")))
    return []  # it breaks off


def _known(charset):
    """Returns an encoding that forms have; Python has others, which take long, or are none of text."""
    charset = charset.lower().replace("_", "-")
    return charset if charset in ("us-ascii", "ascii", "iso-8859-1", "latin-1") else "utf-8"


def _parameter(value):
    """Returns a parameter of a header, as browsers write it."""
    if isinstance(value, tuple):  # with an encoding
        return value[2].encode("latin-1", "replace").decode(_known(value[0] or "utf-8"), "replace")
    return value and value.encode("latin-1", "replace").decode("utf-8", "replace")


class Markup(str):
    """Text that is HTML already."""

    def __new__(cls, value=""):
        return super().__new__(cls, value.__html__() if hasattr(value, "__html__") else value)

    def __html__(self):
        return self

    @classmethod
    def escape(cls, value):
        return escape(value)

    def __add__(self, other):
        return Markup(str.__add__(self, escape(other)))

    def __radd__(self, other):
        return Markup(str.__add__(escape(other), self))

    def __mod__(self, values):
        if isinstance(values, dict):
            return Markup(str(self) % {name: _escaped(value) for name, value in values.items()})
        return Markup(str(self) % tuple(map(_escaped, values if isinstance(values, tuple) else (values,))))

    def format(self, *args, **kwargs):
        return Markup(str(self).format(*map(_escaped, args), **{name: _escaped(value) for name, value in kwargs.items()}))

    def join(self, values):
        return Markup(str(self).join(map(escape, values)))

    def __str__(self):
        return str.__str__(self)

    def __repr__(self):
        return f"Markup({str.__repr__(self)})"


def escape(value):
    """Returns a value as text for HTML."""
    if hasattr(value, "__html__"):
        return Markup(value.__html__())
    for sign, entity in ("&", "&amp;"), (">", "&gt;"), ("<", "&lt;"), ("'", "&#39;"), ('"', "&#34;"):
        value = str(value).replace(sign, entity)
    return Markup(value)


def _escaped(value):
    return value if isinstance(value, (int, float)) else escape(value)


@functools.cache
def templates():
    try:
        import jinja2
    except ModuleNotFoundError:
        raise RuntimeError("a template needs Jinja, which is not in the function's package (pip install --target . jinja2)") from None
    pages = (".html", ".htm", ".xml", ".xhtml", ".svg")
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(os.path.join(os.getcwd(), "templates")),
        autoescape=lambda name: name is None or name.endswith(pages),
    )
    made.globals.update(request=flask.request, g=flask.g, config=flask.current_app.config)
    made.policies["json.dumps_function"] = flask.json.dumps
    return made


def render_template(name, /, **values):
    made = templates()
    return (made.select_template(name) if isinstance(name, (list, tuple)) else made.get_template(name)).render(values)


def render_template_string(source, /, **values):
    return templates().from_string(source).render(values)
