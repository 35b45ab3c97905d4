"""Each method's own picture of a run: a tree, a plan, a chain, a graph of sub-questions.

A method that has one has two files of its name here: `<method>.py` with `picture(state, context)`, which makes plain
values of a run's last state (None before there is anything to draw), and `<method>.html`, which shows them.
"""
