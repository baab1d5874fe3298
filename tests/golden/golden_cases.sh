#!/bin/sh
# The golden cases of single ops, a test of its own so that both run side by side. Called: golden_cases.sh BUILD
exec sh "$(dirname "$0")/golden.sh" "$1" ops
