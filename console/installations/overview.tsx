/** The installation at a glance, and what can be done with it. */

import { Stack } from '@mantine/core';
import { ReachList } from '../catalog/reach-list.tsx';
import type { Installation } from '../rest/installations.ts';
import { Facts } from '../shell/facts.tsx';
import { Moment } from '../shell/moment.tsx';
import { Part } from '../shell/part.tsx';
import { Payload } from '../shell/payload.tsx';
import { visibleJson } from '../style/visible-text.ts';
import { InstallationActions } from './installation-actions.tsx';
import { VersionPolicy } from './version-policy.tsx';

const MIB = 2 ** 20;

export function Overview({ installation }: { readonly installation: Installation }) {
  const { runtime, reach, grantedCapabilities } = installation;
  const { rssBytes, lastExit } = runtime;
  return (
    <Stack>
      <Part title="Its process">
        <Facts
          rows={[
            ['State', runtime.state],
            ['Restarts', runtime.restarts],
            ['Memory', rssBytes === null ? '–' : `${Math.round(rssBytes / MIB)} MiB`],
            ['Started', <Moment key="started" at={runtime.startedAt} />],
            ['Installed', <Moment key="installed" at={installation.createdAt} />],
            ['Secrets set', installation.secretNames.join(', ') || 'none'],
          ]}
        />
        {lastExit === null ? null : (
          <details>
            <summary>How it ended last</summary>
            <Payload>{visibleJson(lastExit)}</Payload>
          </details>
        )}
        <InstallationActions installation={installation} />
      </Part>
      <Part title="Versions">
        <VersionPolicy
          installation={installation}
          key={`${installation.versionPolicy} ${installation.pinnedVersionId}`}
        />
      </Part>
      <Part title="What you have allowed">
        <ReachList reach={reach.filter(({ capability }) => grantedCapabilities.includes(capability))} />
      </Part>
    </Stack>
  );
}
