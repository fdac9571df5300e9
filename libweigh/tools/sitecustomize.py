# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Functions of chosen modules ($WEIGH_PYTHON_MODULES) as regions. Python imports this at its start, from a folder that
`weigh run` puts first into its path; it takes that out again, and imports what the user has by this name.

From Python 3.12 on sys.monitoring calls for the chosen functions alone; before, sys.setprofile does for all."""


def _weigh():
    import os
    import sys

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if path != here]
    modules = tuple(m for m in os.environ.get("WEIGH_PYTHON_MODULES", "").split(":") if m)
    library = os.environ.get("WEIGH_TOOLS_LIBRARY", "")
    if not modules or not library:
        return
    try:
        import ctypes

        tools = ctypes.CDLL(library)
        name_of, begin, end = tools.libweigh_tools_name, tools.libweigh_tools_begin, tools.libweigh_tools_end
        name_of.argtypes, name_of.restype = (ctypes.c_char_p,), ctypes.c_uint32
        begin.argtypes = end.argtypes = (ctypes.c_uint32,)
        begin.restype = end.restype = None
        if not name_of(b"python"):
            return
    except Exception:
        return

    # By identity: codes of two modules may be equal. Those that are known are kept, so that no other gets their number.
    names, kept = {}, []
    get_frame = sys._getframe

    def number(code, frame):
        """The region of a function; 0 if its module was not chosen."""
        module = frame.f_globals.get("__name__")
        if not isinstance(module, str) or not any(module == m or module.startswith(m + ".") for m in modules):
            return 0
        qualified = getattr(code, "co_qualname", code.co_name)
        return name_of(f"{module}.{qualified}".encode("utf-8", "replace"))

    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        import threading

        def profile(frame, event, _):
            if event == "call":
                code = frame.f_code
                known = names.get(id(code))
                if known is None:
                    known = names[id(code)] = number(code, frame)
                    kept.append(code)
                if known:
                    begin(known)
            elif event == "return":
                known = names.get(id(frame.f_code))
                if known:
                    end(known)

        sys.setprofile(profile)
        threading.setprofile(profile)
        return

    for tool in (4, 3, monitoring.PROFILER_ID):
        try:
            monitoring.use_tool_id(tool, "weigh")
            break
        except ValueError:
            continue
    else:
        return
    events, disable = monitoring.events, monitoring.DISABLE

    def starts(code, _):
        known = names.get(id(code))
        if known is None:
            known = number(code, get_frame(1))
            if not known:
                return disable
            names[id(code)] = known
            kept.append(code)
            monitoring.set_local_events(tool, code, events.PY_RETURN | events.PY_YIELD | events.PY_RESUME)
        begin(known)

    def goes_on(code, _):
        begin(names[id(code)])

    def ends(code, _, __):
        end(names[id(code)])

    def is_thrown_into(code, _, __):
        known = names.get(id(code))
        if known:
            begin(known)

    def unwinds(code, _, __):
        known = names.get(id(code))
        if known:
            end(known)

    monitoring.register_callback(tool, events.PY_START, starts)
    monitoring.register_callback(tool, events.PY_RESUME, goes_on)
    monitoring.register_callback(tool, events.PY_RETURN, ends)
    monitoring.register_callback(tool, events.PY_YIELD, ends)
    monitoring.register_callback(tool, events.PY_THROW, is_thrown_into)
    monitoring.register_callback(tool, events.PY_UNWIND, unwinds)
    monitoring.set_events(tool, events.PY_START | events.PY_UNWIND | events.PY_THROW)


_weigh()
del _weigh

# The user's own, if there is one; else it is as if there were none by this name.
import sys as _sys  # noqa: E402

_sys.modules.pop("sitecustomize", None)
import sitecustomize  # noqa: E402,F401
