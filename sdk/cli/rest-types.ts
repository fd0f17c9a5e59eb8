/** Declares the fields of REST responses that commands read. */

export interface Me {
  readonly id: string;
  readonly name: string;
}
export interface Token {
  readonly id: string;
  readonly name: string;
  /** Null: the token may do everything that the account may. */
  readonly scopes: readonly string[] | null;
  readonly lastUsedAt: string | null;
  readonly expiresAt: string;
  readonly current: boolean;
}
export interface StoredKind {
  readonly kind: string;
  readonly usedBytes: number;
  /** Null: no quota. */
  readonly limitBytes: number | null;
  /** How to make room. */
  readonly free: string;
}
export interface Discovered {
  readonly commands: readonly { readonly name: string }[];
  readonly skills: readonly { readonly name: string }[];
  readonly middleware: readonly string[];
  readonly lifecycle: readonly string[];
  readonly tools: readonly { readonly name: string; readonly parameters?: unknown }[];
  readonly providers: readonly { readonly name: string }[];
  readonly channel: { readonly receive: boolean; readonly send: boolean; readonly handshake: boolean } | null;
}
export interface Version {
  readonly id: string;
  readonly semVer: string;
  readonly status: 'published' | 'yanked';
  readonly sourceSha256: string;
  readonly capabilities: readonly string[];
  readonly discovered: Discovered;
}
export interface Plugin {
  readonly id: string;
  readonly slug: string;
  readonly visibility: 'private' | 'listed' | 'delisted';
  readonly blockedReason: string | null;
}
export interface PluginDetail extends Plugin {
  readonly versions: readonly Version[];
  readonly draft: { readonly sourceSha256: string; readonly savedAt: string } | null;
  /** Older versions that did not fit into the answer. Absent: an older service does not list them. */
  readonly leftOutVersions?: readonly Pick<Version, 'id' | 'semVer' | 'status'>[];
}
export interface Reach {
  readonly capability: string;
  readonly sentence: string;
  readonly risk: string;
  /** Whether the capability is a hook that can cancel its operation. */
  readonly cancels: boolean;
}
export interface SecretField {
  readonly name: string;
  /** The uses of its handle. Null: the plugin reads the value. */
  readonly use: readonly string[] | null;
}
export interface Installation {
  readonly id: string;
  readonly slug: string;
  readonly status: string;
  readonly statusReason: string | null;
  readonly condition: {
    readonly state: string;
    readonly cause: string | null;
    readonly nextStep: string | null;
    readonly action: string | null;
  };
  readonly versionPolicy: 'Latest' | 'Pinned' | 'Draft';
  readonly pinnedVersionId: string | null;
  readonly currentVersionId: string | null;
  readonly currentSemVer: string | null;
  readonly required: boolean;
  /** Of the granted capabilities and of those that a pending update requests. */
  readonly reach: readonly Reach[];
  readonly channels: readonly Channel[];
  readonly secretNames: readonly string[];
  readonly configuration: { readonly secrets: readonly SecretField[] };
  readonly pendingUpdate: {
    readonly versionId: string;
    readonly semVer: string;
    readonly added: readonly string[];
    /** Settings and secrets that the update needs and the running version does not. */
    readonly missing: readonly string[];
  } | null;
  readonly updateUnderWay: { readonly semVer: string | null; readonly waitsFor: string | null } | null;
  readonly failedUpdate: { readonly semVer: string | null; readonly reason: string } | null;
  /** Why its author took it out of the catalog. */
  readonly deprecationMessage: string | null;
}
/** The part of an update's changes that `accept` reads. */
export interface UpdateChanges {
  /** Those that the update needs and that have no value. */
  readonly fields: { readonly secrets: readonly SecretField[] };
  /** The texts that models read. */
  readonly texts: readonly { readonly kind: string; readonly name: string; readonly change: string }[];
  readonly files: readonly { readonly path: string; readonly change: string }[];
}
export interface Agent {
  readonly id: string;
  readonly name: string;
  /** The installation of the plugin that created it. */
  readonly installationId: string | null;
}
export interface Channel {
  readonly id: string;
  readonly name: string;
  /** The address for the vendor. */
  readonly webhookUrl: string;
  /** The agent that answers. Absent from a service of an earlier version. */
  readonly agentId?: string;
}
export interface Delivery {
  readonly id: string;
  readonly direction: 'in' | 'out';
  readonly state: 'pending' | 'delivered' | 'dead';
  readonly attempts: number;
  readonly receivedAt: string;
  readonly setAside: boolean;
  readonly waitReason: string | null;
  readonly lastError: string | null;
}
export interface DeliveryDetail extends Delivery {
  readonly method: string;
  /** Without the question mark. */
  readonly query: string;
  readonly headers: readonly (readonly [string, string])[];
  /** The first 64 KiB. */
  readonly body: string;
  readonly bodyBytes: number;
  readonly bodyEncoding: 'text' | 'base64';
  readonly bodyTruncated: boolean;
}
export interface CatalogEntry {
  readonly displayName: string;
  readonly latest: { readonly versionId: string } | null;
  /** Of the latest version. */
  readonly reach: readonly Reach[];
  /** Newest first, at most 100. */
  readonly versions: readonly {
    readonly versionId: string;
    readonly semVer: string;
    readonly reach: readonly Reach[];
  }[];
  /** Whether older ones are left out. Absent from a service of an earlier version. */
  readonly versionsTruncated?: boolean;
  readonly installationId: string | null;
}
