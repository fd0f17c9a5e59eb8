/** A plugin that asks a model of the kit whatever a notification says, and delivers what the model answers. */
import type { Answer } from '../account.ts';
import { packageOf } from '../packages.ts';
import type { InstalledPlugin, Run } from '../run.ts';

const CODE = `
middleware.notifyDeliver = async (ctx) => {
  const [, model, question] = /^ask (\\S+) (.*)$/.exec(ctx.notify.text) ?? [];
  if (model === undefined || question === undefined) return undefined;
  const asked = host.llm.complete({ model, messages: [{ role: 'user', text: question }] });
  const text = await asked.then((answer) => answer.text, (error) => 'not answered: ' + error.message);
  return { notify: { text } };
};
`;

export interface Asker extends InstalledPlugin {
  /** Delivers a notification. @returns what the chain answered */
  ask(question: string): Promise<Answer['body']>;
}

export function asker(run: Run): Promise<Asker> {
  return run.once('asker', async () => {
    const { slug } = await run.kit();
    const plugin = await run.install('asker', packageOf(CODE, { more: 'capabilities: [host.llm]' }));
    const ask = async (question: string) => {
      const text = `ask ${slug}__conform/parrot ${question}`;
      return (await run.hook('notifyDeliver', { notify: { id: 'n', text, to: 't' } })).body;
    };
    await run.until('the start of the asker', async () => (await ask('hello')).context.notify.text === 'hello');
    return { ...plugin, ask };
  });
}
