"""Says which of the files that are its arguments are not Python: for each a line of JSON. Nothing of them is run."""

import json
import sys

for name in sys.argv[1:]:
    with open(name, "rb") as file:
        source = file.read()
    try:
        compile(source, name, "exec", dont_inherit=True)
    except SyntaxError as error:
        print(json.dumps({"file": name, "line": error.lineno or 1, "message": f"{type(error).__name__}: {error.msg}"}))
    except ValueError as error:  # it has a byte that is no text
        print(json.dumps({"file": name, "line": 1, "message": f"{type(error).__name__}: {error}"}))
