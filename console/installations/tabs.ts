/** The tabs of an installation's page, by their names in the address. */
export const tabs = [
  { name: 'overview', label: 'Overview' },
  { name: 'settings', label: 'Settings' },
  { name: 'logs', label: 'Logs' },
  { name: 'channels', label: 'Channels' },
  { name: 'events', label: 'Events' },
  { name: 'calls', label: 'Host calls' },
  { name: 'usage', label: 'Usage' },
  { name: 'metrics', label: 'Metrics' },
] as const;
export type Tab = (typeof tabs)[number]['name'];

export const parseTab = (given: unknown): Tab => tabs.find(({ name }) => name === given)?.name ?? 'overview';
