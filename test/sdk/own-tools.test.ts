/** What a runtime's own tools return, as results that the service can take. */
import t from 'tap';
import { OwnTools } from '../../sdk/session/own-tools.ts';

/** Performs a call of a tool that returns this value. */
function perform(returned: unknown) {
  const tools = new OwnTools();
  tools.add([{ name: 'oven', run: () => returned }]);
  return tools.perform({ callId: 'c1', name: 'oven', arguments: {}, isRepeated: false });
}

t.test('a text, a JSON value, a tool result and nothing', async (t) => {
  t.same(await perform('warm'), { content: [{ type: 'text', text: 'warm' }], isError: false });
  t.same(await perform({ degrees: 180 }), { content: [{ type: 'json', json: { degrees: 180 } }], isError: false });
  t.same(await perform(null), { content: [{ type: 'json', json: null }], isError: false });
  const failed = { content: [{ type: 'text', text: 'cold' }], isError: true };
  t.same(await perform(failed), failed);
  for (const json of [{ content: [{ id: 1 }], title: 'page' }, { content: ['a', null] }, { content: 'a' }])
    t.same(await perform(json), { content: [{ type: 'json', json }], isError: false });
  for (const nothing of [undefined, () => 'warm']) t.same(await perform(nothing), { content: [], isError: false });
});

t.test('a value that JSON cannot hold is a failed result, which the model reads', async (t) => {
  const cycle: { self?: unknown } = {};
  cycle.self = cycle;
  for (const value of [{ grams: 10n }, cycle, { content: [{ type: 'json', json: 10n }] }])
    t.match(await perform(value), { isError: true, content: [{ type: 'text', text: /JSON|BigInt/ }] });
});
