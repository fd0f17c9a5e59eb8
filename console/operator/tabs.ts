/** The tabs of the operator page, by their names in the address. */
export const operatorTabs = [
  { name: 'fleet', label: 'Processes' },
  { name: 'plugins', label: 'Plugins' },
  { name: 'accounts', label: 'Accounts' },
  { name: 'queues', label: 'Queues' },
] as const;
export type OperatorTab = (typeof operatorTabs)[number]['name'];

export const parseOperatorTab = (given: unknown): OperatorTab =>
  operatorTabs.find(({ name }) => name === given)?.name ?? 'fleet';
