#!/bin/sh
# Runs build/tests/tune_variants with the smallest stacks that threads of drivers usually get, those with an
# "unlimited" limit: the arrays of everything that the tuner may choose must fit. Usage, by ctest:
# sh tests/measure/tune_variants.sh BUILD_FOLDER
ulimit -s 2048 || exit 1
exec "$1/tests/tune_variants"
