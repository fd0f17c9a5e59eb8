/** Limits that the supervisor and the child share. Operators can change most of them by a setting of the same name. */
export const KIB = 1024;
export const MIB = 1024 * KIB;
export const SECOND = 1000;
/** How long a model may take to answer, also the model of a plugin that sends nothing until its answer is complete. Milliseconds. */
export const MODEL_TIMEOUT_MS = 120 * SECOND;
/** Assignments in one bundle, to all groups together. Few enough to say by name which of them are too many, or unknown. */
export const REGISTRATIONS_MAX = 1_000;
/** Files of one package. The command line refuses more before it reads the files, the service before it unpacks them. */
export const PACKAGE_FILES_MAX = 10_000;
/** All files of one package together, bytes. Refused as above. */
export const PACKAGE_MAX_BYTES = 1024 * MIB;
/** The file list of a publish or draft, bytes of JSON. Larger packages need the zip upload, which drafts do not have. */
export const FILE_LIST_MAX_BYTES = 16 * MIB;
/** Maximum compression ratio of a file in a package's zip, against zip bombs. Deflate reaches 1032. */
export const ZIP_RATIO_MAX = 200;
/** Shorter secrets are not masked in what a plugin writes: they occur in texts by chance. Characters. */
export const MASKED_MIN_CHARS = 6;
/** Messages that `host.session.messages` returns if the plugin names no number. */
export const SESSION_MESSAGES_DEFAULT = 100;
/** Deliveries that one request to replay many replays at most. */
export const REPLAY_MAX = 10_000;
export const limits = {
  /** Largest frame, bytes. Above every row's own cap, so only a misbehaving child reaches it. */
  frameBytes: 4 * MIB,
  /** Frames read from one child per second; reading pauses beyond that. */
  framesPerSecond: 10_000,
  /** Bytes of log lines and host calls of one installation per second; reading pauses beyond that. */
  outputBytesPerSecond: 256 * KIB,
  callsInFlight: 16,
  callsWaiting: 64,
  hostCallsPerMinute: 6_000,
  logLinesPerMinute: 6_000,
  logMessageBytes: 8 * KIB,
  logDataBytes: 16 * KIB,
  toolResultBytes: 256 * KIB,
  storageBytes: MIB,
  /** Keys of one installation: each write adds up their sizes. */
  storageKeys: 20_000,
  /** Keys in one answer of `host.storage.list`. */
  storageListKeys: 10_000,
  deliveryDays: 14,
  /** Delays after the failed attempts at a delivery, seconds; the failure after the last one makes it dead. */
  deliveryWaits: [5, 15, 60, 600, 3_600],
  /** Days that per-minute metrics of installations are kept. */
  metricsDays: 14,
  /** Slugs that operator metrics label separately, one account's at most half of them; all others are labelled `other`. */
  metricSlugs: 200,
  /** Per account. */
  workspaceBytes: 256 * MIB,
  /** Per account. Directories count as files. */
  workspaceFiles: 10_000,
  /** Files in one answer of `host.workspace.list`, which names each with its size and time. */
  workspaceListFiles: 5_000,
  /** Per account. */
  mediaBytes: 256 * MIB,
  mediaFiles: 10_000,
  /** One media file. Encoded as base64 it fits into one frame. */
  mediaItemBytes: 2 * MIB,
  /** One file that `host.assets` reads. Encoded as base64 it fits into one frame. */
  assetBytes: 2 * MIB,
  /** The following are per account, too. */
  versionBytes: 4 * 1024 * MIB,
  draftBytes: 512 * MIB,
  /** Written to the blob store within three hours. */
  blobBytes: 4 * 1024 * MIB,
  transcriptBytes: 1024 * MIB,
  deliveryBytes: 1024 * MIB,
  logBytes: 256 * MIB,
  auditBytes: 256 * MIB,
  heapMegabytes: 128,
  residentMegabytes: 256,
  /** Per child: its pipes, epoll and event descriptors take about 20. */
  openFiles: 64,
  /** Per child: Node starts up to 7, the rest is headroom. The seccomp filter refuses to fork. */
  threads: 32,
  /** cgroup CPU weight of a child; the default weight of a process is 100, so the supervisor has priority. */
  cpuWeight: 50,
  /** Budget of a whole chain, milliseconds; each link also has the budget of its row. */
  chainBudgetMs: 15 * SECOND,
  /** Characters. The runtime's own summarizer replaces a longer summary. */
  summaryMaxChars: 65_536,
  /** Budget for loading and registering a bundle, milliseconds, at publish and at start. */
  loadBudgetMs: 5 * SECOND,
  /** Of one version, as the three below: few enough for the lists that each session reads. No setting changes these. */
  tools: 128,
  /** Commands in code, and as many in files. */
  commands: 128,
  skills: 128,
  providers: 16,
} as const;
