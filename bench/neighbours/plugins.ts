/** The good plugin of the bench, and one bad plugin for each way to be a bad neighbour. */

export const HOOK = 'middleware.systemPrompt';
export const GOOD = 'middleware.systemPrompt = (ctx) => ctx.systemPrompt + " Use metric units.";';

const hook = (code: string): string => `middleware.systemPrompt = async (ctx) => { ${code} };`;

/** `answers`: its calls end by themselves, so there is no deadline to miss. */
export const bad: Readonly<Record<string, { readonly code: string; readonly answers: boolean }>> = {
  'spins for ever': { code: hook('for (;;) {}'), answers: false },
  'allocates on the heap': {
    code: hook('const all = []; for (;;) all.push(new Array(1000).fill({}));'),
    answers: false,
  },
  'allocates off the heap': {
    code: hook('const all = []; for (;;) { all.push(new Uint8Array(1e7).fill(1)); }'),
    answers: false,
  },
  'floods its log': {
    code: hook('for (;;) { for (let i = 0; i < 500; i += 1) console.log("x".repeat(2000)); await null; }'),
    answers: false,
  },
  'floods frames': {
    code: hook('for (;;) { for (let i = 0; i < 100; i += 1) host.secrets.get("x").catch(() => 0); await null; }'),
    answers: false,
  },
  'never reads replies': {
    code: hook('for (let i = 0; i < 5000; i += 1) host.secrets.get("x".repeat(60)).catch(() => 0); for (;;) {}'),
    answers: false,
  },
  'crashes in a loop': {
    code: hook('const all = []; for (;;) all.push(new Uint8Array(1e9).fill(1));'),
    answers: true,
  },
};
