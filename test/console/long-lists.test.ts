/** What a page says when it does not show everything: long transcripts, logs and lists of versions. */
import t from 'tap';
import { startServiceOnTestDatabase } from '../deploy/service-fixture.ts';
import { openSignedIn, shareBrowser } from './browser.ts';
import { inspect } from './pictures.ts';

/** More than a session's page shows. */
const MESSAGES = 201;

const service = await startServiceOnTestDatabase(t);
const browser = await shareBrowser(t);
const { page, complaints } = await openSignedIn(browser, service);

t.test('the page of a long session shows its newest messages, and says that older ones are left out', async (t) => {
  const { body: session } = await service.session('POST', '/sessions', { agentId: 'ann' });
  const append = (...texts: readonly string[]) =>
    service.session('POST', `/sessions/${session.id}/messages`, {
      messages: texts.map((text) => ({ role: 'user', text })),
    });
  await append(...Array.from({ length: MESSAGES }, (_, at) => `message ${at + 1}`));
  await page.goto(`${service.url}/playground/${session.id}`);
  const messages = page.getByRole('list', { name: 'Messages' }).getByRole('listitem');
  await messages.last().getByText(`message ${MESSAGES}`, { exact: true }).waitFor();
  t.match(await messages.first().innerText(), /message 2$/, 'oldest first');
  await page.getByText(`Only the newest ${MESSAGES - 1} messages are shown.`).waitFor();
  await inspect(t, page, 'session-long');
  await append('one more');
  await messages.last().getByText('one more', { exact: true }).waitFor();
  await service.session('POST', `/sessions/${session.id}/clear`, {
    reason: 'test',
    by: 'user',
    trigger: 'user',
  });
  await append('the first');
  await messages.last().getByText('the first', { exact: true }).waitFor();
  t.equal(await page.getByText('Only the newest').count(), 0);
});

t.test('the browser complains about nothing', async (t) => t.same(complaints, []));
