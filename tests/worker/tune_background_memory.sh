#!/bin/sh
# Host memory that runs out where tuning in the background is done by a thread and, in a thorough run, where a helper
# does it. Called: tune_background_memory.sh BUILD_FOLDER
set -eu
program=$1/tests/tune_background_memory
modes=off
[ "${TUFF_SUITE:-}" != thorough ] || modes="off on"
for isolate in $modes; do
    echo "TUFF_TUNE_ISOLATE=$isolate:"
    TUFF_TUNE_ISOLATE=$isolate "$program"
done
