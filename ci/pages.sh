#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes build/pages, a folder to publish: the documentation, the report and the figures, as far as
# there are any, and a front page with a link to each.
#
#   ci/pages.sh build/docs build/report build/figures
set -eu
[ $# = 3 ] || { echo 'usage: ci/pages.sh DOCS REPORT FIGURES' >&2; exit 2; }
to=$(dirname -- "$0")/../build/pages
rm -rf "$to"
mkdir -p "$to"
{
  echo '<!doctype html><html lang="en"><meta charset="utf-8"><title>neuron-fabric</title>'
  echo '<h1>neuron-fabric</h1><ul>'
  for part in docs report figures; do
    if [ -d "$1" ]; then
      # Sphinx keeps the folders of the tree: the first page is in its folder docs.
      if [ $part = docs ]; then cp -r "$1/." "$to"; else cp -r "$1" "$to/$part"; fi
      echo "<li><a href=\"$part/index.html\">$part</a></li>"
    fi
    shift
  done
  echo '</ul></html>'
} >"$to/index.html"
