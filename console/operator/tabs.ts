/** The parts of the operators' page, as its address names them. */
export const operatorTabs = [
  { name: 'fleet', label: 'Processes' },
  { name: 'plugins', label: 'Plugins' },
  { name: 'queues', label: 'Queues' },
] as const;
export type OperatorTab = (typeof operatorTabs)[number]['name'];

export const parseOperatorTab = (given: unknown): OperatorTab =>
  operatorTabs.find(({ name }) => name === given)?.name ?? 'fleet';
