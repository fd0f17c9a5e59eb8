-- Up Migration
-- Ids are UUIDv7 texts created by the process that writes the row. Text, so that a malformed id in a URL is unknown
-- (404) instead of a cast error. Times are timestamptz; JSON is jsonb; bytes are bytea.

CREATE TABLE accounts (
  id          text PRIMARY KEY,
  name        text NOT NULL UNIQUE,              -- the token's subject
  operator    boolean NOT NULL DEFAULT false,
  verified_at timestamptz,                       -- set: the account's plugins show its identity
  created_at  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE plugins (
  id                  text PRIMARY KEY,
  owner_id            text NOT NULL REFERENCES accounts,
  slug                text NOT NULL UNIQUE,
  display_name        text NOT NULL,
  description         text NOT NULL DEFAULT '',
  visibility          text NOT NULL DEFAULT 'private' CHECK (visibility IN ('private', 'listed', 'delisted')),
  deprecation_message text,
  blocked_reason      text,                      -- an operator stopped it; null: not blocked
  created_at          timestamptz NOT NULL DEFAULT now(),
  updated_at          timestamptz NOT NULL DEFAULT now(),
  deleted_at          timestamptz                -- set: deleted for users; the row waits for its last installation
);
CREATE INDEX plugins_deleted ON plugins (id) WHERE deleted_at IS NOT NULL;
CREATE INDEX plugins_owner ON plugins (owner_id, id);
CREATE INDEX plugins_listed ON plugins (id) WHERE visibility = 'listed';

-- The slug of a published plugin stays reserved after its deletion, so that another plugin cannot inherit its trust.
CREATE TABLE reserved_slugs (
  slug        text PRIMARY KEY,
  reserved_at timestamptz NOT NULL DEFAULT now()
);

-- A version is immutable except for its status. A draft is the plugin's only row without semver.
CREATE TABLE versions (
  id                 text PRIMARY KEY,
  plugin_id          text NOT NULL REFERENCES plugins ON DELETE CASCADE,
  semver             text,
  status             text NOT NULL CHECK (status IN ('published', 'yanked', 'draft')),
  source_sha256      text NOT NULL,
  bundle_sha256      text NOT NULL,
  source_map_sha256  text,
  size_bytes         bigint NOT NULL,
  manifest           jsonb NOT NULL,             -- the checked frontmatter: name, description, capabilities, settings, secrets
  readme             text NOT NULL,              -- body without frontmatter
  capabilities       text[] NOT NULL,            -- declared and registered, sorted
  added_capabilities text[] NOT NULL,            -- against the previous version by precedence
  discovered         jsonb NOT NULL,
  registrations      jsonb NOT NULL,             -- what introspection recorded: the run-time allow-list
  created_at         timestamptz NOT NULL DEFAULT now(),
  yanked_at          timestamptz,
  CHECK ((status = 'draft') = (semver IS NULL)),
  UNIQUE (plugin_id, semver)
);
CREATE UNIQUE INDEX versions_one_draft ON versions (plugin_id) WHERE status = 'draft';
-- The latest version, updated by every publish and yank: SQL cannot order by SemVer precedence, and lists need it per
-- row.
ALTER TABLE plugins ADD COLUMN latest_version_id text REFERENCES versions;

CREATE TABLE version_files (
  version_id text NOT NULL REFERENCES versions ON DELETE CASCADE,
  path       text NOT NULL,
  sha256     text NOT NULL,                      -- the blob's name
  size_bytes bigint NOT NULL,
  PRIMARY KEY (version_id, path)
);
CREATE INDEX version_files_blob ON version_files (sha256);

CREATE TABLE installations (
  id                   text PRIMARY KEY,
  account_id           text NOT NULL REFERENCES accounts,
  plugin_id            text NOT NULL REFERENCES plugins,
  version_policy       text NOT NULL CHECK (version_policy IN ('Latest', 'Pinned', 'Draft')),
  pinned_version_id    text REFERENCES versions,
  current_version_id   text REFERENCES versions,
  pending_version_id   text REFERENCES versions, -- waits for accept-update
  granted_capabilities text[] NOT NULL,
  settings             jsonb NOT NULL DEFAULT '{}',
  status               text NOT NULL CHECK (status IN ('ready', 'needs_configuration', 'paused', 'failed', 'uninstalling')),
  status_reason        text,
  hook_order           integer NOT NULL,
  created_at           timestamptz NOT NULL DEFAULT now(),
  updated_at           timestamptz NOT NULL DEFAULT now()
);
-- Only one live installation of a plugin per account; one that is being uninstalled does not count.
CREATE UNIQUE INDEX installations_one ON installations (account_id, plugin_id) WHERE status <> 'uninstalling';
CREATE INDEX installations_account ON installations (account_id, hook_order, id);
CREATE INDEX installations_plugin ON installations (plugin_id, version_policy);
CREATE INDEX installations_current_version ON installations (current_version_id);
CREATE INDEX installations_pinned_version ON installations (pinned_version_id);
CREATE INDEX installations_pending_version ON installations (pending_version_id);

CREATE TABLE installation_secrets (
  installation_id text NOT NULL REFERENCES installations ON DELETE CASCADE,
  name            text NOT NULL,
  key_id          text NOT NULL,
  sealed          bytea NOT NULL,                -- nonce, ciphertext, tag (AES-256-GCM; installation id and name as associated data)
  updated_at      timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (installation_id, name)
);

-- The last reported state of each child, written by the supervisor for the API to display.
CREATE TABLE installation_runtime (
  installation_id text PRIMARY KEY REFERENCES installations ON DELETE CASCADE,
  state           text NOT NULL CHECK (state IN ('stopped', 'starting', 'running', 'draining', 'backoff', 'failed')),
  restarts        integer NOT NULL DEFAULT 0,
  last_exit       jsonb,
  started_at      timestamptz,
  rss_bytes       bigint,
  updated_at      timestamptz NOT NULL DEFAULT now()
);

-- The outbox: written in the transaction that changes the state; the queue job only triggers the delivery.
CREATE TABLE events (
  id              text PRIMARY KEY,
  installation_id text NOT NULL,                 -- no foreign key: pluginUninstalled outlives its installation
  account_id      text NOT NULL,
  plugin_id       text NOT NULL,
  version_id      text,
  semver          text,
  type            text NOT NULL,
  data            jsonb NOT NULL,
  occurred_at     timestamptz NOT NULL DEFAULT now(),
  state           text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'skipped', 'dead')),
  attempts        integer NOT NULL DEFAULT 0,
  next_attempt_at timestamptz NOT NULL DEFAULT now(),
  claimed_by      integer,                       -- lease of the supervisor that is attempting it, an advisory lock
  last_error      text,
  finished_at     timestamptz
);
CREATE INDEX events_pending ON events (id) WHERE state = 'pending';
CREATE INDEX events_installation ON events (installation_id, id);

CREATE TABLE sessions (
  id           text PRIMARY KEY,
  account_id   text NOT NULL REFERENCES accounts,
  agent_id     text NOT NULL,
  agent_name   text NOT NULL,
  channel_id   text,
  created_at   timestamptz NOT NULL DEFAULT now(),
  cleared_at   timestamptz
);
CREATE INDEX sessions_account ON sessions (account_id, id);

-- The transcript: messages and notices, ordered by position.
CREATE TABLE session_messages (
  session_id text NOT NULL REFERENCES sessions ON DELETE CASCADE,
  position   bigint GENERATED ALWAYS AS IDENTITY,
  id         text NOT NULL,                         -- the runtime's, or ours
  role       text NOT NULL,
  text       text NOT NULL,
  data       json,                                  -- not jsonb, which rejects U+0000, which models may write
  at         timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (session_id, position),
  UNIQUE (session_id, id)
);

-- Hourly partitions, created ahead and dropped after 24 hours by db/records/logs.ts: dropping is cheaper than deleting.
CREATE TABLE plugin_logs (
  id              text NOT NULL,
  at              timestamptz NOT NULL,
  level           text NOT NULL CHECK (level IN ('debug', 'info', 'warn', 'error')),
  message         text NOT NULL,
  data            jsonb,
  installation_id text NOT NULL,
  session_id      text,
  source          text NOT NULL,
  invocation_id   text,
  version_id      text,
  semver          text,
  truncated       boolean NOT NULL DEFAULT false
) PARTITION BY RANGE (at);
CREATE INDEX plugin_logs_page ON plugin_logs (installation_id, id DESC);

CREATE TABLE audit (
  id              text NOT NULL,
  at              timestamptz NOT NULL,
  installation_id text NOT NULL,
  session_id      text,
  invocation_id   text,
  member          text NOT NULL,
  outcome         text NOT NULL,                 -- ok, denied, failed, timeout, cancelled
  duration_ms     real NOT NULL,
  arguments_sha256 text,
  detail          text
) PARTITION BY RANGE (at);
CREATE INDEX audit_page ON audit (installation_id, id DESC);

-- host.storage: a key-value store per installation. The sum of size_bytes is checked against the quota.
CREATE TABLE installation_storage (
  installation_id text NOT NULL REFERENCES installations ON DELETE CASCADE,
  key             text NOT NULL,
  value           text NOT NULL,                 -- JSON; not jsonb, which refuses U+0000 and reorders keys
  size_bytes      integer NOT NULL,
  updated_at      timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (installation_id, key)
);

-- Introspection requests of the API and their answers. Short-lived; swept at start-up.
CREATE TABLE introspections (
  id            text PRIMARY KEY,
  bundle_sha256 text NOT NULL,
  source_name   text NOT NULL,
  result        jsonb,                           -- null until answered
  created_at    timestamptz NOT NULL DEFAULT now(),
  answered_at   timestamptz
);
