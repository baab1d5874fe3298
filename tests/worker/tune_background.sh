#!/bin/sh
# Tuning in the background by a helper and, in a thorough run, by a thread of the program's, which must do alike; that
# thread is what tune_background_memory.sh is about. Called: tune_background.sh BUILD_FOLDER
set -eu
program=$1/tests/tune_background
modes=on
[ "${TUFF_SUITE:-}" != thorough ] || modes="off on"
for isolate in $modes; do
    echo "TUFF_TUNE_ISOLATE=$isolate:"
    TUFF_TUNE_ISOLATE=$isolate "$program"
done
