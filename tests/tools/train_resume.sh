#!/bin/sh
# Resuming tuff train: with other settings than the checkpoint's, from checkpoints that were kept, and with best weights
# that are missing or not the run's. On the reference device. Usage: train_resume.sh BUILD
set -u
. "$(dirname "$0")/script_checks"
enter "$1"
# train OPTIONS...: trains a small model. resume FILE OPTIONS...: resumes it.
train() {
    "$tuff" train --data text --device reference --layers 1 --heads 1 --width 8 --context 8 --batch 2 --sample 0 "$@"
}
resume() {
    file=$1
    shift
    "$tuff" train --data text --device reference --sample 0 --resume "$file" "$@"
}

i=0
while [ $i -lt 40 ]; do
    echo "$i words of text that nobody reads but a model"
    i=$((i + 1))
done >text

# Another number of batches per step: only if the batches so far are whole steps of it; the count of steps continues.
expect 0 "stopped after step 5" train --steps 8 --accumulate 2 --stop-after 5 --save five
expect 1 "10 batches are not a whole number of steps of 4 batches" resume five --accumulate 4
expect 0 "stopped after step 4" train --steps 8 --accumulate 2 --stop-after 4 --save four
expect 0 "resuming after step 4" resume four --accumulate 4 --stop-after 6 --save six
expect 0 "resuming after step 6" resume six --save eight
expect 0 "done after step 8" resume six --save eight
expect 0 "stopped after step 4" train --steps 8 --stop-after 4 --save single
expect 0 "resuming after step 4" resume single --accumulate 2 --stop-after 6 --save double
expect 0 "resuming after step 6" resume double --accumulate 1 --save single

# validated OPTIONS...: a run with validations after steps 4, 8 and 12, each of which has the best loss so far.
validated() {
    train --steps 12 --validate 0.2 --validate-every 4 "$@"
}
# same FILE: it is the end of an uninterrupted run, with its best weights.
same() {
    cmp -s whole "$1" || fail "$1 differs from that of an uninterrupted run"
    cmp -s whole.best "$1.best" || fail "$1.best differs from that of an uninterrupted run"
}
expect 0 "after step 12; the sample uses these weights" validated --save whole

# With another name the best weights so far are copied, and the run can be stopped again.
expect 0 "stopped after step 5" validated --stop-after 5 --save first
expect 0 "stopped after step 7" resume first --stop-after 7 --save second
expect 0 "resuming after step 7" resume second --save second
same second

# As if killed between writing a checkpoint and naming it the best one: .best is an older one, or missing.
for older in first.best ""; do
    rm -f killed*
    expect 0 "stopped after step 8" validated --stop-after 8 --save killed
    cp killed expected
    rm killed.best
    [ -z "$older" ] || cp "$older" killed.best
    expect 0 "stopped after step 9" resume killed --stop-after 9 --save killed
    cmp -s expected killed.best || fail "killed.best is not the checkpoint of step 8"
    expect 0 "resuming after step 9" resume killed --save killed
    same killed
done

# Resuming kept checkpoints works if .best belongs to them, or the best one was kept, too; else its loss is forgotten.
expect 0 "stopped after step 7" validated --stop-after 7 --save kept --save-every 1 --keep 2
for file in kept.prev kept.step-6; do
    rm -f rest*
    expect 0 "resuming after step 6" resume $file --save rest
    same rest
done
expect 0 "stopped after step 9" resume kept --stop-after 9 --save kept --save-every 1 --keep 9
expect 0 "kept.best does not contain the best weights of the run, from step 4" resume kept.step-6 --save rest
grep -q "after step 12; the sample" out || fail "without the best loss the run says $(cat out)"
expect 0 "stopped after step 9" validated --stop-after 9 --save all --save-every 1 --keep 9
rm -f rest*
expect 0 "resuming after step 6" resume all.step-6 --save rest
same rest

# A loss for another text is not compared with earlier ones.
printf '~^~^|~^~^|' >strange
i=0
while [ $i -lt 8 ]; do
    cat strange strange strange strange
    i=$((i + 1))
done >other
expect 0 "after step 8; the sample" resume first --stop-after 9 --validate strange
expect 0 "after step 8; the sample" "$tuff" train --data other --device reference --sample 0 --resume first --stop-after 9

# A file that happens to have the name of the file that probes the folder; a name that cannot be created.
for name in tried.probe tried.probe-0; do
    echo mine >$name
done
expect 0 "stopped after step 2" train --steps 8 --stop-after 2 --save tried
[ "$(cat tried.probe tried.probe-0)" = "mine
mine" ] || fail "--save removes a file that it did not write: $(ls tried*)"
mkdir named.best
expect 1 "named has step 4, but not all of its other names could be created: " validated --stop-after 5 --save named
grep -q "named has step 5, but not" out || fail "step 5 is not saved: $(cat out)"
rmdir named.best
expect 0 "resuming after step 5" resume named --stop-after 8 --save named
[ -f named.best ] || fail "the next best weights are not saved"

# Losses for another text, or for one that has changed, are not comparable; nor are losses for text that was trained on.
cp text changing
expect 0 "stopped after step 4" train --steps 12 --validate changing --validate-every 2 --stop-after 4 --save changed
expect 0 "resuming after step 4" resume changed --stop-after 6 --validate-every 1
grep -q "changing differs from the text" out && fail "the same text counts as another"
grep -q -e "--validate-every 1 instead of the checkpoint's 2" out || fail "the change of --validate-every is not reported"
cat strange >>changing
expect 0 "changing differs from the text that the checkpoint was validated on" resume changed --stop-after 6
expect 0 "text that is held out from now on may have been trained on" resume single --steps 9 --validate 0.2

# A loss that is not finite ends a run at the next save, even if no line is due.
expect 1 "loss is not finite" train --steps 400 --optimizer sgd --learning-rate 100 --log-every 1000 --save-every 5 --save broken
grep -q "lower --learning-rate, or look for NaN in the data" out || fail "the message has no advice: $(cat out)"
grep -q "training continues" out && fail "training continues with values that are not finite"

[ "$failures" -eq 0 ]
