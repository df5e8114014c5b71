"""Runs a plain program for each event: its data is the program's standard input, what it prints is the answer.

    echo '{"specversion":"1.0","id":"1","source":"/me","type":"greet","data":"hi"}' | python3 .landfall/exec.py ./program
"""

import codecs
import os
import re
import select
import subprocess
import sys
import time

import adaptor

# What a program prints goes out while it runs once it is so much, or so long after its first byte; else it is one answer.
HELD = 128 << 10
DELAY = 0.25
ROOM = 4 << 10  # what a new pipe takes in any case


def load(program, request_only=False):
    """Returns what answers events by running a program. It finds the request where CGI has it, in its environment, and the configuration.

    With request_only the program is one of Fission's binary environment: it is run whatever its mode is, and its headers are there by the
    names, too, that Fission gives them.
    """
    words = interpreter_of(program)
    if words and not os.access(words[0], os.X_OK):
        raise adaptor.Fault("NoInterpreter", f"the first line of {program} names {words[0]}, which the server does not have where functions see it")
    command = command_of(program, words) if request_only else [program]

    def handle(event):
        request = adaptor.environ(event)
        variables = {name: value for name, value in request.items() if isinstance(value, str) and "." not in name and "\0" not in value}
        if "PATH_INFO" in variables:
            variables["PATH_INFO"] = variables["PATH_INFO"].encode("latin-1")  # the bytes themselves: WSGI has each as a character
        if request_only:
            variables.update(headers_of(event))
            variables["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":" + os.getcwd()
        env = {**os.environ, **configured(request["landfall.config"]), **variables}
        running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, bufsize=0)
        if isinstance(event.get("data"), adaptor.Body):
            pass_on(running, event["data"])
        else:
            feed(running.stdin, request["wsgi.input"].read())
        output, ended = beginning(running.stdout.fileno())
        if not ended:
            return adaptor.Pieces(rest(event, program, running, output))
        finish(program, running)
        kind = "text/html; charset=utf-8" if request_only and PAGE.match(output) else kind_of(output)
        return adaptor.reply(event, 200, [("Content-Type", kind)], output)

    return handle


# How a page begins: who reads Fission's answers takes such a one for HTML, whatever is said of it.
PAGE = re.compile(rb"\s*<(!doctype html|html|head|body|h1|p|div|table|title|script|style|a|br|b)[\s>]", re.IGNORECASE)


def command_of(program, words):
    """Returns the words that run a file of any mode: a program as it is, a script by its interpreter, or else by /bin/sh."""
    with open(program, "rb") as file:
        if file.read(4) == b"\x7fELF":
            return [executable(program)]
    return [*(words or ["/bin/sh"]), program]


def interpreter_of(program):
    """Returns what the first line of a script names: its interpreter and an argument; nothing when it names none."""
    with open(program, "rb") as file:
        first = file.readline(256)
    words = first[2:].split(None, 1) if first.startswith(b"#!") else []
    return [os.fsdecode(word.strip()) for word in words]


def executable(program):
    """Returns the path of a program that can be executed: a copy when the package has it without that right."""
    if os.access(program, os.X_OK):
        return program
    import shutil  # slow to load
    import tempfile

    copy = os.path.join(tempfile.mkdtemp(), os.path.basename(program))
    try:
        shutil.copyfile(program, copy)
    except OSError as error:
        raise adaptor.Fault(
            "NotExecutable",
            f"{program} cannot be executed, and there is no room for a copy that can ({error}); type: git update-index --chmod=+x {program}",
        ) from None
    os.chmod(copy, 0o500)
    return copy


def headers_of(event):
    """Returns the headers of a request as Fission names them: HTTP_ and the name in capitals, with the hyphens that it has."""
    headers = adaptor.map_of(event, "protocol").get("headers") or {}
    kept = {"HTTP_" + name.upper(): values[0] for name, values in headers.items() if values and name.upper() != "PROXY"}
    kind = event.get("datacontenttype")
    if kind:
        kept["HTTP_CONTENT-TYPE"] = kept["HTTP_CONTENT_TYPE"] = kind
    return {name: value for name, value in kept.items() if "\0" not in value and "=" not in name}


def feed(to, body):
    """Gives a program its standard input, behind its back when it may not take it at once."""

    def write():
        try:
            with to:
                view = memoryview(body)
                while view:
                    view = view[to.write(view):]
        except BrokenPipeError:
            pass  # it does not read it

    if len(body) <= ROOM:
        write()
    else:
        import threading  # slow to load

        threading.Thread(target=write, daemon=True).start()


def pass_on(running, body):
    """Gives a program its standard input while it comes. One whose input breaks off is killed: it must not take a half for the whole."""

    def write():
        try:
            with running.stdin as to:
                try:
                    for piece in body:
                        view = memoryview(piece)
                        while view:
                            view = view[to.write(view):]
                except adaptor.Fault as error:
                    print(error, file=sys.stderr)
                    running.kill()
        except BrokenPipeError:
            pass  # it does not read it

    import threading  # slow to load

    threading.Thread(target=write, daemon=True).start()


def beginning(output):
    """Returns what a program prints at first, and whether that is all."""
    made, until = b"", None
    while len(made) < HELD:
        left = None if until is None else max(0, until - time.monotonic())
        if not select.select([output], [], [], left)[0]:
            return made, False
        piece = os.read(output, HELD)
        if not piece:
            return made, True
        made += piece
        until = until or time.monotonic() + DELAY
    return made, False


def rest(event, program, running, output):
    """Returns the pieces of an answer that began while the program ran."""
    yield adaptor.reply(event, 200, [("Content-Type", kind_of(output, False))], b"")[0]
    while output:
        yield output
        output = os.read(running.stdout.fileno(), HELD)
    finish(program, running)


def finish(program, running):
    """Waits for the end of a program that prints nothing more. It raises a Fault when that is a bad one."""
    running.stdout.close()
    code = running.wait()
    if code != 0:
        how = f"exit code {code}" if code > 0 else f"signal {-code}"
        raise adaptor.Fault("ExitError", f"the program {program} ended with {how}")


def configured(config):
    """Returns what the environment has of the configuration of app and trigger. The trigger's is in the event alone."""
    return {name: value for name, value in config.items() if re.fullmatch(r"(?!LANDFALL_)[A-Za-z_]\w*", name, re.ASCII) and "\0" not in value}


def kind_of(output, whole=True):
    """Returns the content type of what a program printed."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(output, whole)
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "text/plain; charset=utf-8"


if __name__ == "__main__":
    adaptor.serve(lambda: load(sys.argv[-1], "--request" in sys.argv[1:-1]))
