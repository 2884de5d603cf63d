"""The built-in suite: small generated tasks with known labels, on which the harness itself is tested.

`families` generates the rows and states the theory of each task; `theory` derives from it, and from which tokens can influence
a variant's pooled vector, whether the variant can solve a task.
"""
