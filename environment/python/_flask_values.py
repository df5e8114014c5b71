"""Names with one value or several, as Flask has them: of a query, a form, cookies and headers."""


def missing(name):
    """Returns the error that answers a request without a value that the function needs."""
    from flask import MissingKey

    return MissingKey(name)


class ImmutableMultiDict(dict):
    """Names, each with a list of values. Flask's is a dict, too."""

    def __init__(self, pairs=()):
        super().__init__()
        for name, value in pairs:
            dict.setdefault(self, name, []).append(value)

    def __getitem__(self, name):
        if name not in self:
            raise missing(name)
        return dict.__getitem__(self, name)[0]

    def get(self, name, default=None, type=None):
        return _converted(dict.get(self, name, ()), default, type)

    def __iter__(self):  # so that dict() takes the values that __getitem__ returns
        return dict.__iter__(self)

    def getlist(self, name, type=None):
        return _all_converted(dict.get(self, name, ()), type)

    def items(self, multi=False):
        for name, values in dict.items(self):
            for value in values if multi else values[:1]:
                yield name, value

    def values(self):
        return (values[0] for values in dict.values(self))

    def lists(self):
        return ((name, list(values)) for name, values in dict.items(self))

    def listvalues(self):
        return dict.values(self)

    def to_dict(self, flat=True):
        return dict(self.items()) if flat else dict(self.lists())

    def __repr__(self):
        return f"{type(self).__name__}({list(self.items(multi=True))!r})"

    def _immutable(self, *args, **kwargs):
        raise TypeError(f"{type(self).__name__!r} objects are immutable")

    __setitem__ = __delitem__ = __ior__ = setdefault = update = pop = popitem = clear = _immutable


def _converted(values, default, type):
    if not values:
        return default
    try:
        return values[0] if type is None else type(values[0])
    except (ValueError, TypeError):
        return default


def _all_converted(values, type):
    found = []
    for value in values:
        try:
            found.append(value if type is None else type(value))
        except (ValueError, TypeError):
            pass
    return found


class Headers:
    """Header fields in their order. Their names have no case."""

    def __init__(self, defaults=None):
        self._pairs, self._values = [], None
        if defaults is not None:
            self.extend(defaults)

    def _of(self, name):
        if self._values is None:  # since the last change
            self._values = {}
            for known, value in self._pairs:
                self._values.setdefault(known.lower(), []).append(value)
        return self._values.get(name.lower(), [])

    def _change(self, pairs):
        self._pairs, self._values = pairs, None

    def __getitem__(self, name):
        found = self._of(name)
        if not found:
            raise missing(name)
        return found[0]

    def get(self, name, default=None, type=None):
        return _converted(self._of(name), default, type)

    def getlist(self, name, type=None):
        return _all_converted(self._of(name), type)

    get_all = getlist

    def __contains__(self, name):
        return bool(self._of(name))

    def __iter__(self):
        return iter(self._pairs)

    def __len__(self):
        return len(self._pairs)

    def __eq__(self, other):
        return isinstance(other, Headers) and sorted((n.lower(), v) for n, v in self) == sorted((n.lower(), v) for n, v in other)

    def items(self, lower=False):
        return ((name.lower() if lower else name, value) for name, value in self._pairs)

    def keys(self, lower=False):
        return (name for name, _ in self.items(lower))

    def values(self):
        return (value for _, value in self._pairs)

    def add(self, name, value):
        self._pairs.append((name, str(value)))
        if self._values is not None:
            self._values.setdefault(name.lower(), []).append(str(value))

    def set(self, name, value):
        """Takes the place of the first field of that name, and of all others."""
        same = [at for at, (known, _) in enumerate(self._pairs) if known.lower() == name.lower()]
        if not same:
            return self.add(name, value)
        kept = [pair for pair in self._pairs if pair[0].lower() != name.lower()]
        kept.insert(same[0], (name, str(value)))
        self._change(kept)

    __setitem__ = set

    def setlist(self, name, values):
        self.remove(name)
        for value in values:
            self.add(name, value)

    def remove(self, name):
        self._change([pair for pair in self._pairs if pair[0].lower() != name.lower()])

    __delitem__ = remove

    def setdefault(self, name, value):
        if name not in self:
            self.add(name, value)
        return self[name]

    def extend(self, more):
        for name, value in _pairs_of(more):
            self.add(name, value)

    def update(self, more):
        for name, value in more.items() if hasattr(more, "items") else more:
            if isinstance(value, (list, tuple)):
                self.setlist(name, value)
            else:
                self.set(name, value)

    def __str__(self):
        return "".join(f"{name}: {value}\r\n" for name, value in self._pairs) + "\r\n"

    def __repr__(self):
        return f"{type(self).__name__}({self._pairs!r})"


def _pairs_of(more):
    for name, value in more.items() if hasattr(more, "items") else more:
        for one in value if isinstance(value, (list, tuple)) else [value]:
            yield name, one
