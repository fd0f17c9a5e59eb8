/** Settings of the supervisor process. */
import { z } from 'zod';
import { KIB, limits, MIB } from '../sdk/contract/limits.ts';
import { oneOf, parseSettings, sharedSettings, wholeNumber } from '../service/settings/settings.ts';

/** A host name with a port. */
const PRIVATE_TARGET = /^[a-z0-9.-]+:\d{1,5}$/;

export const supervisorSettings = {
  ...sharedSettings,
  SANDBOX: oneOf(
    ['auto', 'require', 'off'],
    'auto',
    "The operating system's wall (bubblewrap). auto: without it other people's plugins do not start; require: without it nothing starts; off: never use it, for looking for faults only.",
  ),
  SANDBOX_OFF_CONFIRMED: oneOf(
    ['no', 'yes'],
    'no',
    'SANDBOX=off starts only with yes here, and only where no plugin of another account is installed.',
  ),
  INSPECT: oneOf(
    ['off', 'on'],
    'off',
    "on: authors may debug their own drafts (bulkhead dev --inspect). Who holds the inspector is past the locked realm of that one process and stopped by the operating system's wall only, so it needs bubblewrap.",
  ),
  FRAME_BYTES: wholeNumber(64 * KIB, limits.frameBytes, limits.frameBytes, 'Largest message of a child.', 'bytes'),
  FRAMES_PER_SECOND: wholeNumber(
    100,
    1_000_000,
    limits.framesPerSecond,
    'Messages read from a child; one that writes more waits.',
    'a second',
  ),
  OUTPUT_BYTES_PER_SECOND: wholeNumber(
    16 * KIB,
    1024 * MIB,
    limits.outputBytesPerSecond,
    'Bytes of log lines and host calls of one installation, a host call counted as 640; one that writes more waits.',
    'a second',
  ),
  CALLS_IN_FLIGHT: wholeNumber(1, 1_000, limits.callsInFlight, 'Calls one child works on at once.'),
  CALLS_WAITING: wholeNumber(0, 10_000, limits.callsWaiting, 'Calls that may wait for one child.'),
  HOST_CALLS_PER_MINUTE: wholeNumber(1, 10_000_000, limits.hostCallsPerMinute, 'Host calls of one child.', 'a minute'),
  LOG_LINES_PER_MINUTE: wholeNumber(
    1,
    10_000_000,
    limits.logLinesPerMinute,
    'Log lines of one installation.',
    'a minute',
  ),
  LOG_MESSAGE_BYTES: wholeNumber(256, MIB, limits.logMessageBytes, 'Longest log message; more is cut off.', 'bytes'),
  LOG_DATA_BYTES: wholeNumber(256, MIB, limits.logDataBytes, 'Largest data of a log line; more is cut off.', 'bytes'),
  SESSION_READS_PER_MINUTE: wholeNumber(1, 10_000_000, 6_000, 'Reads of the session API by one account.', 'a minute'),
  SESSION_CALLS_PER_MINUTE: wholeNumber(
    1,
    10_000_000,
    30_000,
    'Hooks, tool calls and other writes of the session API by one account.',
    'a minute',
  ),
  TOOL_RESULT_BYTES: wholeNumber(KIB, 16 * MIB, limits.toolResultBytes, 'Largest result of a tool.', 'bytes'),
  MODELS_FILE: z
    .string()
    .min(1)
    .optional()
    .describe('JSON file of the model endpoints plugins may ask (docs/models.md). Empty: none but those of plugins.'),
  MODEL_TOKENS_PER_DAY: wholeNumber(
    0,
    1_000_000_000_000,
    0,
    'Tokens of the endpoints in MODELS_FILE that one installation may use, input and output, by the day of UTC; 0: any number.',
    'a day',
  ),
  CHILDREN: wholeNumber(
    0,
    10_000,
    0,
    'Plugin processes at once; the one unused longest is stopped for the next. 0: one for each 64 MiB of half the memory, at least 20.',
  ),
  IDLE_STOP_SECONDS: wholeNumber(
    1,
    86_400,
    600,
    'A plugin process without calls is stopped after this time.',
    'seconds',
  ),
  DELIVERY_DAYS: wholeNumber(
    1,
    3_650,
    limits.deliveryDays,
    'Webhook requests and replies that ended are kept this long, with their bodies.',
    'days',
  ),
  METRICS_DAYS: wholeNumber(
    1,
    365,
    limits.metricsDays,
    'What installations did (GET /installations/{id}/metrics) is kept this long.',
    'days',
  ),
  METRICS_SLUGS: wholeNumber(
    1,
    10_000,
    limits.metricSlugs,
    "Plugins told apart in the supervisor's /metrics, first come first served; the rest is called other.",
  ),
  SSH_HOSTS_FILE: z
    .string()
    .min(1)
    .optional()
    .describe('JSON file of the hosts that host.ssh may use, as docs/security-model.md describes. Empty: none.'),
  STORAGE_BYTES: wholeNumber(KIB, 64 * MIB, limits.storageBytes, 'host.storage of one installation.', 'bytes'),
  HTTP_ALLOW_PRIVATE: z
    .string()
    .transform((list) => list.split(',').map((target) => target.trim().toLowerCase()))
    .transform((targets) => targets.filter((target) => target !== ''))
    .refine(
      (targets) => targets.every((target) => PRIVATE_TARGET.test(target)),
      'must be host:port, separated by commas',
    )
    .transform((targets): ReadonlySet<string> => new Set(targets))
    .prefault('')
    .describe(
      'Targets of host.http that may have private addresses: host:port, separated by commas. Plugins that were granted the host reach them inside your network. Empty: none.',
    ),
  WORKSPACE_BYTES: wholeNumber(MIB, 1_000_000 * MIB, limits.workspaceBytes, 'host.workspace of one account.', 'bytes'),
  WORKSPACE_FILES: wholeNumber(
    100,
    1_000_000,
    limits.workspaceFiles,
    'Files and directories in the workspace of one account.',
  ),
  MEDIA_BYTES: wholeNumber(MIB, 1_000_000 * MIB, limits.mediaBytes, 'host.media of one account.', 'bytes'),
  MEDIA_FILES: wholeNumber(1, 1_000_000, limits.mediaFiles, 'Media files of one account.'),
  HEAP_MEGABYTES: wholeNumber(32, 8_192, limits.heapMegabytes, 'JavaScript heap of one child.', 'megabytes'),
  RESIDENT_MEGABYTES: wholeNumber(64, 16_384, limits.residentMegabytes, 'Resident memory of one child.', 'megabytes'),
  OPEN_FILES: wholeNumber(40, 4_096, limits.openFiles, 'Open files of one child; it needs about 20 for itself.'),
  THREADS: wholeNumber(12, 1_024, limits.threads, 'Threads of one child. Needs a control group.'),
  CPU_WEIGHT: wholeNumber(
    1,
    10_000,
    limits.cpuWeight,
    'Share of the processor of one child where all want it; 100 is an ordinary process. Needs a control group.',
  ),
} as const;

export type SupervisorConfig = z.output<z.ZodObject<typeof supervisorSettings>>;

/** Reads the supervisor's settings. @throws SettingsError naming the first invalid one */
export function readConfig(env: Readonly<Record<string, string | undefined>>): SupervisorConfig {
  return parseSettings(supervisorSettings, env);
}
