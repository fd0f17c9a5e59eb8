/** `bulkhead conform-runtime`: plays scenarios against an agent runtime, and says which ones it does not handle. */
import type { Command } from '../command.ts';
import type { Context } from '../context.ts';
import { CommandError } from '../failure.ts';
import type { RuntimeScenario } from '../local-tools.ts';
import type { Account } from '../rest-types.ts';

export const conformRuntime: Command = {
  name: 'conform-runtime',
  summary: 'Check an agent runtime: start it with a model of the kit and play scenarios',
  args: [{ name: '<command...>', doc: 'starts the runtime; write -- before it' }],
  options: [{ flags: '--only <text>', doc: 'play the scenarios whose line, “chapter: sentence”, contains the text' }],
  examples: ['conform-runtime -- node agent.mjs', 'conform-runtime --only "Calls of tools" -- python agent.py'],
  async run(context, args) {
    const rest = await context.getRest();
    // Says how to sign in where the token is refused.
    await rest.get<Account>('/me');
    const scenarios = await context.localTools.conformRuntime({
      command: args.positional,
      rest: `${await context.getUrl()}/api`,
      sessions: await context.getSessionUrl(),
      token: rest.token,
      only: args.text('only'),
      env: context.env,
      signal: context.signal,
      onResult: (scenario) => printScenario(context, scenario),
      onNotRemoved: (what) => context.output.printNote(`not removed: ${what}`),
    });
    const broken = scenarios.filter(({ verdict }) => verdict === 'broken').length;
    const held = scenarios.filter(({ verdict }) => verdict === 'held').length;
    if (scenarios.length === 0) throw new CommandError('usage', 'No scenario contains the text of --only.');
    context.output.printLine(
      `${scenarios.length} scenarios: ${held} held, ${broken} broken, ${scenarios.length - held - broken} skipped`,
    );
    if (broken === 0) return { scenarios };
    const message = `The runtime breaks ${broken} of ${scenarios.length} scenarios.`;
    throw new CommandError('runtime_broken', message, { result: { scenarios } });
  },
};

function printScenario({ output }: Context, { verdict, chapter, scenario, seen, advice }: RuntimeScenario): void {
  const { paint } = output;
  const marks = { held: paint.green('held   '), broken: paint.red('BROKEN '), skipped: paint.dim('skipped') };
  output.printLine(`${marks[verdict]}  ${chapter}: ${scenario}`);
  if (seen !== null) output.printLine(`         ${verdict === 'skipped' ? 'because' : 'seen:  '} ${seen}`);
  if (advice !== null) output.printLine(`         to do:  ${advice}`);
}
