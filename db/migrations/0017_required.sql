-- Up Migration
-- Whether an operation that reaches the installation's hooks goes ahead only when the installation ran.
ALTER TABLE installations ADD COLUMN required boolean NOT NULL DEFAULT false;
