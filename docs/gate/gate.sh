#!/bin/sh
# Is the code of one checkout not worse than that of another? Trains base three times with each, in two minutes on two cores.
# sh gate.sh BEFORE AFTER [key=value ...]     the keys are those of both studies; exit code 0 only if every arm is shown to lose no more than the limits
set -eu
before=$(cd "$1" && pwd) after=$(cd "$2" && pwd) output=$PWD/multirun
shift 2
for study in before after; do
    eval "code=\$$study"
    (cd "$code" && PYTHONPATH=$code python -m harness -m model=base scale=tiny task=bag task.grammar.train_examples=2000 \
        task.grammar.validation_examples=1000 finetune.epochs=1 seed=0,1,2 study="$study" sweep.timing=false report=false \
        rerun=true output="$output" "$@")
done
cd "$after"
PYTHONPATH=$after python -m reports gate study=after against=before max_drop=3points max_memory=10% max_cost=1% \
    output="$output"
