/** Bounds that both sides of the jail agree on. Operators may change each by the setting of the same name. */
export const KIB = 1024;
export const MIB = 1024 * KIB;
export const SECOND = 1000;
export const limits = {
  /** Largest single message on the wire, bytes: above every row's own cap, so that only an attack reaches it. */
  frameBytes: 4 * MIB,
  /** Messages read from one child; one that says more waits. */
  framesPerSecond: 10_000,
  /** What one installation's log lines and host calls may weigh, bytes; one that says more waits. */
  saidBytesPerSecond: 256 * KIB,
  callsInFlight: 16,
  callsWaiting: 64,
  hostCallsPerMinute: 6_000,
  logLinesPerMinute: 6_000,
  logMessageBytes: 8 * KIB,
  logDataBytes: 16 * KIB,
  toolResultBytes: 256 * KIB,
  storageBytes: MIB,
  deliveryDays: 14,
  /** How long what installations did is kept by the minute. */
  metricsDays: 14,
  /** Slugs that the operators' metrics tell apart; the rest is `other`. */
  metricSlugs: 200,
  /** Of one account. Files: directories count too. */
  workspaceBytes: 256 * MIB,
  workspaceFiles: 10_000,
  /** Of one account. */
  mediaBytes: 256 * MIB,
  mediaFiles: 10_000,
  /** One media file. As base64 it fits into a message. */
  mediaItemBytes: 2 * MIB,
  heapMegabytes: 128,
  residentMegabytes: 256,
  /** Of one child: its pipes, epoll and event descriptors take about 20. */
  openFiles: 64,
  /** Of one child: Node starts up to 7; the rest is slack. Forking is refused by the system call filter. */
  threads: 32,
  /** Of one child, 100 being an ordinary process: plugins wait for the supervisor, not the other way round. */
  cpuWeight: 50,
  /** One whole chain, milliseconds; each link has its row's own budget besides. */
  chainBudgetMs: 15 * SECOND,
  /** A summary longer than this is oversized and the built-in summarizer takes over. Characters. */
  summaryMaxChars: 65_536,
  /** Load and registration of a bundle, milliseconds, at publish and at start alike. */
  loadBudgetMs: 5 * SECOND,
  tools: 128,
  commands: 128,
  providers: 16,
} as const;
