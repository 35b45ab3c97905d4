"""Method-specific pictures of a run: a tree, a plan, a chain, a graph of sub-questions.

A method with a picture has two files of its name here: `<method>.py` with `picture(state, context)`, which returns the
template values of a run's last state (None if there is nothing to draw yet), and the template `<method>.html`.
"""
