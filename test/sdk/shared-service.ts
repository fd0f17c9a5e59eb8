/** Both interfaces of a service, for the files of a process. The first file that asks starts them; each has users of its own. */
import rootTest from 'tap';
import { type ApiFixture, listen, startApiFixture } from '../api/api-fixture.ts';
import { type SupervisorFixture, startSupervisorFixture } from '../supervisor/supervisor-fixture.ts';

export interface SharedService {
  readonly fixture: SupervisorFixture;
  readonly api: ApiFixture;
  /** Of the REST interface. */
  readonly url: string;
  readonly sessionUrl: string;
}

let shared: Promise<SharedService> | undefined;

export function shareService(): Promise<SharedService> {
  shared ??= startService();
  return shared;
}

async function startService(): Promise<SharedService> {
  const fixture = await startSupervisorFixture(rootTest, { inspect: true });
  const sessionUrl = await fixture.app.listen({ port: 0, host: '127.0.0.1' });
  const api = await startApiFixture(rootTest, { beside: fixture });
  return { fixture, api, url: `http://127.0.0.1:${await listen(api)}`, sessionUrl };
}
