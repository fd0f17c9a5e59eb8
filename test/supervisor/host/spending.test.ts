/** The count of model tokens, without a database. */
import t from 'tap';
import { Spending, type SpendingDeps } from '../../../supervisor/host/llm/spending.ts';

t.test('an answer that cannot be counted reaches its plugin, and the operator the error', async (t) => {
  const errors: Error[] = [];
  const late = Object.assign(new Error('canceling statement due to statement timeout'), { code: '57014' });
  const spending = new Spending({
    pool: { query: () => Promise.reject(late) },
    metrics: { modelAnswered: () => undefined },
    tokensPerDay: 0,
    onError: (error: Error) => void errors.push(error),
  } as unknown as SpendingDeps);
  const charge = { plugin: { installationId: 'i', slug: 's' }, provider: { name: 'p' }, model: { id: 'm' } };
  await spending.count(charge as unknown as Parameters<Spending['count']>[0], { inputTokens: 1, outputTokens: 1 });
  t.same(errors, [late]);
});
