/** State, cause and next step of an installation, as a table of facts. */
import t from 'tap';
import { describeInstallation, type InstallationFacts } from '../../../db/installations/installation-state.ts';

const well: InstallationFacts = {
  status: 'ready',
  statusReason: null,
  blockedReason: null,
  currentSemVer: '1.2.0',
  currentStatus: 'published',
  runtimeState: 'running',
  lastExit: null,
  failedUpdate: null,
  updateWait: null,
  hasLostPin: false,
};
const memory = { reason: 'it exceeded its memory limit' };
const late = 'hook middleware.systemPrompt took longer than its 1000 ms (1050 ms)';
const failedUpdate = { semVer: '2.0.0', reason: 'index.ts:3: no key', rolledBack: false };
const missing = 'Set key before it can run.';

const rows: readonly [
  string,
  Partial<InstallationFacts>,
  { state: string; cause: RegExp | null; nextStep: RegExp | null; action: string | null },
][] = [
  ['running', {}, { state: 'ready', cause: null, nextStep: null, action: null }],
  ['never started', { runtimeState: null }, { state: 'ready', cause: null, nextStep: null, action: null }],
  ['an old crash', { lastExit: memory }, { state: 'ready', cause: null, nextStep: null, action: null }],
  [
    'a notice',
    { statusReason: 'It was rolled back.' },
    { state: 'ready', cause: /^It was rolled back\.$/, nextStep: null, action: null },
  ],
  [
    'a yanked version',
    { currentStatus: 'yanked' },
    { state: 'ready', cause: /1\.2\.0 was yanked/, nextStep: null, action: null },
  ],
  [
    'a pinned version that was yanked before it ran',
    { hasLostPin: true },
    { state: 'ready', cause: /withdrawn by its author .* 1\.2\.0 keeps running/, nextStep: null, action: null },
  ],
  [
    'in backoff',
    { runtimeState: 'backoff', lastExit: memory },
    {
      state: 'restarting',
      cause: /ended: it exceeded its memory limit\.$/,
      nextStep: /next call starts it/,
      action: null,
    },
  ],
  [
    'an update that does not start',
    { failedUpdate },
    {
      state: 'update_failed',
      cause: /^2\.0\.0 did not start: index\.ts:3: no key\.$/,
      nextStep: /1\.2\.0 keeps running/,
      action: 'retry_update',
    },
  ],
  [
    'an update that was rolled back',
    { failedUpdate: { ...failedUpdate, rolledBack: true } },
    {
      state: 'update_failed',
      cause: /^2\.0\.0 was rolled back: index/,
      nextStep: /1\.2\.0 keeps running/,
      action: 'retry_update',
    },
  ],
  [
    'an update that waits',
    { updateWait: 'Set key, so that 2.0.0 can start.' },
    { state: 'ready', cause: /^Set key/, nextStep: null, action: null },
  ],
  [
    'failed',
    { status: 'failed', statusReason: memory.reason, runtimeState: 'failed', lastExit: { reason: late } },
    { state: 'failed', cause: /too often: it exceeded its memory limit\.$/, nextStep: /restart/, action: 'restart' },
  ],
  [
    'failed, and not saved yet',
    { runtimeState: 'failed', lastExit: memory },
    { state: 'failed', cause: /memory/, nextStep: /restart/, action: 'restart' },
  ],
  [
    'failed, with an update that does not start either',
    { status: 'failed', statusReason: memory.reason, failedUpdate },
    { state: 'failed', cause: /memory/, nextStep: /restart/, action: 'restart' },
  ],
  [
    'without a setting',
    { status: 'needs_configuration', statusReason: missing },
    { state: 'needs_configuration', cause: /^Set key/, nextStep: /settings/, action: 'configure' },
  ],
  [
    'paused after a crash',
    { status: 'paused', runtimeState: 'failed', lastExit: memory },
    { state: 'paused', cause: /paused/, nextStep: /^Resume/, action: 'resume' },
  ],
  ...(['ready', 'failed', 'paused', 'needs_configuration'] as const).map((status): (typeof rows)[number] => [
    `${status} and blocked`,
    { status, blockedReason: 'the operator blocked this plugin: it phones home' },
    {
      state: 'blocked',
      cause: /^The operator blocked this plugin: it phones home\.$/,
      nextStep: /operator/,
      action: null,
    },
  ]),
  [
    'of a suspended account',
    { blockedReason: 'its account is suspended: it sends spam' },
    { state: 'blocked', cause: /^Its account is suspended: it sends spam\.$/, nextStep: /operator/, action: null },
  ],
  [
    'blocked for a reason that is a sentence',
    { blockedReason: 'the operator blocked this plugin: It phones home.' },
    { state: 'blocked', cause: /: It phones home\.$/, nextStep: /operator/, action: null },
  ],
  [
    'being removed while blocked',
    { status: 'uninstalling', blockedReason: 'x' },
    { state: 'uninstalling', cause: /removed/, nextStep: null, action: null },
  ],
];

for (const [name, facts, expected] of rows)
  t.test(`${name}: ${expected.state}`, async (t) => t.match(describeInstallation({ ...well, ...facts }), expected));
