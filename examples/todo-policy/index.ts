const DAY_MS = 24 * 60 * 60_000;
const DEFAULT_DAYS = 7;

middleware.todoCreate = (ctx) => {
  if (ctx.todo.dueAt) return;
  // A setting can be any text, such as “soon”.
  const days = Number(ctx.settings.dueInDays?.trim() || Number.NaN);
  const inDays = days >= 0 && days <= 3_650 ? days : DEFAULT_DAYS;
  return { todo: { dueAt: new Date(Date.parse(ctx.at) + inDays * DAY_MS).toISOString() } };
};

middleware.todoUpdate = ({ before, changes, at, cancel }) => {
  // Undefined: unchanged. Null: the date is removed.
  if (changes.dueAt === undefined) return;
  if (changes.dueAt && Date.parse(changes.dueAt) < Date.parse(at)) cancel('A due date lies in the future.');
  // `changes` is replaced as a whole, so keep the other changes.
  if (changes.dueAt === null) return { changes: { ...changes, dueAt: before.dueAt } };
};

middleware.todoComplete = ({ todo, cancel }) => {
  const open = todo.notes.split('\n').filter((line) => /^\s*[-*] \[ \]/.test(line)).length;
  if (open > 0)
    cancel(`“${todo.title.slice(0, 100)}” is not done: ${open} of its boxes ${open === 1 ? 'is' : 'are'} open.`);
};

middleware.todoDelete = ({ todo, agent, cancel }) => {
  if (todo.assigneeAgentId && todo.assigneeAgentId !== agent.id) {
    cancel(`“${todo.title.slice(0, 100)}” is not ${agent.name}'s to delete.`);
  }
};
