-- Version 4 of the tables, as a test has it: it adds what programs of version 3 leave out.

ALTER TABLE {{schema}}.event ADD COLUMN region text;
ALTER TABLE {{schema}}.task ADD COLUMN priority smallint NOT NULL DEFAULT 0;
CREATE TABLE {{schema}}.region (name text PRIMARY KEY, noted timestamptz NOT NULL DEFAULT now());
CREATE INDEX event_region ON {{schema}}.event (region, seq) WHERE region IS NOT NULL;
