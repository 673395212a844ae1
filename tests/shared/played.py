"""Ray in one process, for tests of what asks it."""

from types import SimpleNamespace

import cloudpickle


class GoneError(Exception):
    """What Ray raises of a worker that is lost."""


class Call:
    def __init__(self, instance, name, arguments):
        self.instance = instance
        self.name = name
        self.given = arguments


class Played:
    """Ray in one process: a call is made when it is waited for; ``dies`` says when in it the worker does, if at all."""

    exceptions = SimpleNamespace(RayError=GoneError)

    def __init__(self, dies=lambda *_: None):
        self.dies = dies
        self.alive = set()
        self.answers = []
        self.called = []
        self.hired = 0

    def put(self, value):
        return value

    def remote(self, kind):
        def make(*arguments):
            instance = kind(*arguments)
            self.alive.add(id(instance))
            self.hired += 1
            calls = ("begin", "add", "totals")
            bound = {
                name: SimpleNamespace(
                    remote=lambda *arguments, name=name: self.call(
                        instance, name, arguments
                    )
                )
                for name in calls
            }
            return SimpleNamespace(instance=instance, **bound)

        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=make))

    def wait(self, calls, num_returns, timeout):
        return calls[-1:], calls[
            :-1
        ]  # the last one first: answers may come in any order

    def call(self, instance, name, arguments):
        self.called.append(name)
        return Call(
            instance, name, cloudpickle.loads(cloudpickle.dumps(arguments))
        )  # as on its way to another process

    def get(self, call):
        if id(call.instance) not in self.alive:
            raise GoneError
        when = self.dies(call.name, *call.given)
        answer = (
            getattr(call.instance, call.name)(*call.given) if when != "before" else None
        )
        if when is not None:
            self.alive.discard(id(call.instance))
            raise GoneError
        self.answers.append(answer)
        return answer

    def kill(self, actor):
        self.alive.discard(id(actor.instance))


def dying(name, which, when):
    """Ends a worker before or after it has done what it is asked by this name, if so many were asked it earlier."""
    calls = []

    def dies(called, *_):
        calls.append(called)
        return when if called == name and calls.count(name) == which + 1 else None

    return dies
