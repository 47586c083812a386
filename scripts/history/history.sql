-- SPDX-License-Identifier: Apache-2.0
-- Tables of the history, schema 1 (database.py).
CREATE TABLE invocation (
  id INTEGER PRIMARY KEY, started REAL NOT NULL, finished REAL, title TEXT NOT NULL,
  command TEXT NOT NULL, revision TEXT NOT NULL, expected INTEGER NOT NULL, facts TEXT);
CREATE INDEX invocation_by_title ON invocation(title);
CREATE TABLE run (
  id INTEGER PRIMARY KEY, invocation INTEGER NOT NULL REFERENCES invocation(id),
  record_id TEXT NOT NULL, finished REAL NOT NULL, name TEXT NOT NULL,
  sim TEXT NOT NULL, build TEXT NOT NULL, seed INTEGER NOT NULL, result TEXT NOT NULL,
  kind TEXT NOT NULL, cause TEXT NOT NULL, seconds REAL NOT NULL, build_seconds REAL NOT NULL,
  fingerprint TEXT NOT NULL, spec TEXT NOT NULL, record TEXT NOT NULL);
CREATE TABLE result (
  run INTEGER NOT NULL REFERENCES run(id), test TEXT NOT NULL, sim TEXT NOT NULL,
  build TEXT NOT NULL, seed INTEGER NOT NULL, result TEXT NOT NULL, seconds REAL NOT NULL);
CREATE INDEX run_by_invocation ON run(invocation);
CREATE INDEX result_by_test ON result(test, sim, build, seed, run);
