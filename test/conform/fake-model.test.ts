/** The model of the check of runtimes keeps all that it got. */
import t from 'tap';
import { FakeModel } from '../../conform/runtime/fake-model.ts';

t.test('requests of earlier scripts of a scenario are kept', async (t) => {
  const model = await FakeModel.start();
  t.teardown(() => model.close());
  const ask = async (content: string): Promise<void> => {
    const body = JSON.stringify({ messages: [{ role: 'user', content }] });
    await (await fetch(`${model.url}/chat/completions`, { method: 'POST', body })).text();
  };
  const first = model.play('case-1', [{ deltas: ['Yes.'] }]);
  await ask('one (case-1)');
  const second = model.play('case-1', [{ deltas: ['No.'] }]);
  await ask('two (case-1)');
  t.strictSame([first.length, second.length], [1, 1]);
  t.match(
    model.listRequests('case-1').map(({ text }) => text),
    [/one/, /two/],
  );
});

t.test('the address and the headers of a request are kept', async (t) => {
  const model = await FakeModel.start();
  t.teardown(() => model.close());
  const requests = model.play('case-1', [{ deltas: ['Yes.'] }]);
  const body = JSON.stringify({ messages: [{ role: 'user', content: 'case-1' }] });
  const init = { method: 'POST', body, headers: { authorization: 'Bearer a-token' } };
  await (await fetch(`${model.url}/chat/completions?key=a-key`, init)).text();
  t.match(requests[0]?.head, 'a-token');
  t.match(requests[0]?.head, 'a-key');
});
