#!/bin/sh
# Tuning in the background by a thread of the program's and by a helper, which must do alike. Called: tune_background.sh
# BUILD_FOLDER
set -eu
program=$1/tests/tune_background
for isolate in off on; do
    echo "TUFF_TUNE_ISOLATE=$isolate:"
    TUFF_TUNE_ISOLATE=$isolate "$program"
done
