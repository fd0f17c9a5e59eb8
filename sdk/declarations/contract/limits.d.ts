/** Limits that the supervisor and the child share. Operators can change most of them by a setting of the same name. */
export declare const KIB = 1024;
export declare const MIB: number;
export declare const SECOND = 1000;
/** How long a model may take to answer, also the model of a plugin that sends nothing until its answer is complete. Milliseconds. */
export declare const MODEL_TIMEOUT_MS: number;
/** Assignments in one bundle, to all groups together. Few enough to say by name which of them are too many, or unknown. */
export declare const REGISTRATIONS_MAX = 1000;
/** Files of one package. The command line refuses more before it reads the files, the service before it unpacks them. */
export declare const PACKAGE_FILES_MAX = 10000;
/** All files of one package together, bytes. Refused as above. */
export declare const PACKAGE_MAX_BYTES: number;
/** The file list of a publish or draft, bytes of JSON. Larger packages need the zip upload, which drafts do not have. */
export declare const FILE_LIST_MAX_BYTES: number;
/** Maximum compression ratio of a file in a package's zip, against zip bombs. Deflate reaches 1032. */
export declare const ZIP_RATIO_MAX = 200;
/** Shorter secrets are not masked in what a plugin writes: they occur in texts by chance. Characters. */
export declare const MASKED_MIN_CHARS = 6;
/** Messages that `host.session.messages` returns if the plugin names no number. */
export declare const SESSION_MESSAGES_DEFAULT = 100;
/** Deliveries that one request to replay many replays at most. */
export declare const REPLAY_MAX = 10000;
export declare const limits: {
    /** Largest frame, bytes. Above every row's own cap, so only a misbehaving child reaches it. */
    readonly frameBytes: number;
    /** Frames read from one child per second; reading pauses beyond that. */
    readonly framesPerSecond: 10000;
    /** Bytes of log lines and host calls of one installation per second; reading pauses beyond that. */
    readonly outputBytesPerSecond: number;
    readonly callsInFlight: 16;
    readonly callsWaiting: 64;
    readonly hostCallsPerMinute: 6000;
    readonly logLinesPerMinute: 6000;
    readonly logMessageBytes: number;
    readonly logDataBytes: number;
    readonly toolResultBytes: number;
    readonly storageBytes: number;
    /** Keys of one installation: each write adds up their sizes. */
    readonly storageKeys: 20000;
    /** Keys in one answer of `host.storage.list`. */
    readonly storageListKeys: 10000;
    readonly deliveryDays: 14;
    /** Delays after the failed attempts at a delivery, seconds; the failure after the last one makes it dead. */
    readonly deliveryWaits: readonly [5, 15, 60, 600, 3600];
    /** Days that per-minute metrics of installations are kept. */
    readonly metricsDays: 14;
    /** Slugs that operator metrics label separately, one account's at most half of them; all others are labelled `other`. */
    readonly metricSlugs: 200;
    /** Per account. */
    readonly workspaceBytes: number;
    /** Per account. Directories count as files. */
    readonly workspaceFiles: 10000;
    /** Files in one answer of `host.workspace.list`, which names each with its size and time. */
    readonly workspaceListFiles: 5000;
    /** Per account. */
    readonly mediaBytes: number;
    readonly mediaFiles: 10000;
    /** One media file. Encoded as base64 it fits into one frame. */
    readonly mediaItemBytes: number;
    /** One file that `host.assets` reads. Encoded as base64 it fits into one frame. */
    readonly assetBytes: number;
    /** The following are per account, too. */
    readonly versionBytes: number;
    readonly draftBytes: number;
    /** Written to the blob store within three hours. */
    readonly blobBytes: number;
    readonly transcriptBytes: number;
    readonly deliveryBytes: number;
    readonly logBytes: number;
    readonly auditBytes: number;
    readonly heapMegabytes: 128;
    readonly residentMegabytes: 256;
    /** Per child: its pipes, epoll and event descriptors take about 20. */
    readonly openFiles: 64;
    /** Per child: Node starts up to 7, the rest is headroom. The seccomp filter refuses to fork. */
    readonly threads: 32;
    /** cgroup CPU weight of a child; the default weight of a process is 100, so the supervisor has priority. */
    readonly cpuWeight: 50;
    /** Budget of a whole chain, milliseconds; each link also has the budget of its row. */
    readonly chainBudgetMs: number;
    /** Characters. The runtime's own summarizer replaces a longer summary. */
    readonly summaryMaxChars: 65536;
    /** Budget for loading and registering a bundle, milliseconds, at publish and at start. */
    readonly loadBudgetMs: number;
    /** Of one version, as the three below: few enough for the lists that each session reads. No setting changes these. */
    readonly tools: 128;
    /** Commands in code, and as many in files. */
    readonly commands: 128;
    readonly skills: 128;
    readonly providers: 16;
};
