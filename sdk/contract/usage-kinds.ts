/** The kinds of bytes that an account keeps. Each has a quota, which is a setting. */

export const usageKinds = {
  versions: {
    holds: 'Published versions: their files, bundles, source maps and what they offer.',
    free: 'Yank versions that should not be installed any more.',
  },
  drafts: {
    holds: 'The saved draft of each of your plugins.',
    free: 'Save smaller drafts, or delete plugins without a published version.',
  },
  blobs: {
    holds:
      'Files of publishes, drafts, host.media and sessions written in the last three hours, whatever became of them.',
    free: 'Wait: files that nothing uses are removed within three hours.',
  },
  transcripts: {
    holds: 'Sessions and their messages, to-dos, reminders, SSH hosts.',
    free: 'Clear or delete sessions. Delete to-dos that are done.',
  },
  deliveries: {
    holds:
      'Webhook requests with their bodies, replies and events. Near the quota, the oldest finished ones are removed.',
    free: 'Fix or resume the plugins whose deliveries wait, disconnect their channels, or uninstall them.',
  },
  media: {
    holds: 'Files that plugins stored with host.media, and files of sessions.',
    free: 'Uninstall plugins that stored files you no longer need, and clear or delete sessions.',
  },
  workspaces: {
    holds: 'Files in your workspace when a plugin last changed it.',
    free: 'Remove files from your workspace with the plugins or agents that work in it.',
  },
  storage: {
    holds: 'Values that plugins stored with host.storage, and the settings and secrets of your plugins.',
    free: 'Uninstall plugins that you no longer need, or reset their settings and delete their secrets.',
  },
  logs: {
    holds: 'Log lines of the last 24 hours. Near the quota, the oldest lines are removed.',
    free: 'Nothing to do: the oldest lines make room.',
  },
  audit: {
    holds:
      'Host calls of the last 30 days, and what was done in your name in the last 90. Near the quota, the oldest host calls are removed first.',
    free: 'Nothing to do: the oldest entries make room.',
  },
} as const satisfies Record<string, { readonly holds: string; readonly free: string }>;
export type UsageKind = keyof typeof usageKinds;
export const USAGE_KINDS = Object.keys(usageKinds) as UsageKind[];
