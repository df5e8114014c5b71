"""Runs a plain program for each event: its data is the program's standard input, what it prints is the answer.

    echo '{"specversion":"1.0","id":"1","source":"/me","type":"greet","data":"hi"}' | python3 .landfall/exec.py ./program
"""

import os
import subprocess
import sys

import adaptor


def load(program):
    """Returns what answers events by running a program. It finds the request where CGI has it, in its environment."""

    def handle(event):
        request = adaptor.environ(event)
        body = request["wsgi.input"].read()
        variables = {name: value for name, value in request.items() if isinstance(value, str) and "." not in name and "\0" not in value}
        ended = subprocess.run([program], input=body, stdout=subprocess.PIPE, env={**os.environ, **variables})
        if ended.returncode != 0:
            how = f"exit code {ended.returncode}" if ended.returncode > 0 else f"signal {-ended.returncode}"
            raise adaptor.Fault("ExitError", f"the program {program} ended with {how}")
        return adaptor.reply(event, 200, [("Content-Type", kind_of(ended.stdout))], ended.stdout)

    return handle


def kind_of(output):
    """Returns the content type of what a program printed."""
    try:
        output.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "text/plain; charset=utf-8"


if __name__ == "__main__":
    adaptor.serve(lambda: load(sys.argv[1]))
