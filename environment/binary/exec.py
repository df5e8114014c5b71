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


def load(program):
    """Returns what answers events by running a program. It finds the request where CGI has it, in its environment, and the configuration."""

    def handle(event):
        request = adaptor.environ(event)
        variables = {name: value for name, value in request.items() if isinstance(value, str) and "." not in name and "\0" not in value}
        if "PATH_INFO" in variables:
            variables["PATH_INFO"] = variables["PATH_INFO"].encode("latin-1")  # the bytes themselves: WSGI has each as a character
        env = {**os.environ, **configured(request["landfall.config"]), **variables}
        running = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, bufsize=0)
        if isinstance(event.get("data"), adaptor.Body):
            pass_on(running, event["data"])
        else:
            feed(running.stdin, request["wsgi.input"].read())
        output, ended = beginning(running.stdout.fileno())
        if not ended:
            return adaptor.Pieces(rest(event, program, running, output))
        finish(program, running)
        return adaptor.reply(event, 200, [("Content-Type", kind_of(output))], output)

    return handle


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
    adaptor.serve(lambda: load(sys.argv[1]))
