/** The installation at a glance, and what can be done with it. */

import { Grid, Stack } from '@mantine/core';
import { ReachList } from '../catalog/reach-list.tsx';
import type { Installation } from '../rest/installations.ts';
import { Facts } from '../shell/facts.tsx';
import { Figures } from '../shell/figures.tsx';
import { Moment } from '../shell/moment.tsx';
import { Part } from '../shell/part.tsx';
import { Payload } from '../shell/payload.tsx';
import { visibleJson } from '../style/visible-text.ts';
import { VersionPolicy } from './version-policy.tsx';

const MIB = 2 ** 20;

export function Overview({ installation }: { readonly installation: Installation }) {
  const { runtime, reach, grantedCapabilities, secretNames } = installation;
  const { rssBytes, lastExit } = runtime;
  return (
    <Grid gap="md">
      <Grid.Col span={12}>
        <Figures
          rows={[
            ['Process', runtime.state],
            ['Memory', rssBytes === null ? '–' : `${Math.round(rssBytes / MIB)} MiB`],
            ['Restarts', runtime.restarts],
            ['Running since', <Moment key="started" at={runtime.startedAt} />],
          ]}
        />
      </Grid.Col>
      <Grid.Col span={{ base: 12, lg: 6 }}>
        <Part title="What you have allowed">
          <ReachList reach={reach.filter(({ capability }) => grantedCapabilities.includes(capability))} />
        </Part>
      </Grid.Col>
      <Grid.Col span={{ base: 12, lg: 6 }}>
        <Stack>
          <Part title="Versions">
            <VersionPolicy
              installation={installation}
              key={`${installation.versionPolicy} ${installation.pinnedVersionId}`}
            />
          </Part>
          <Part title="About it">
            <Facts
              rows={[
                ['Installed', <Moment key="installed" at={installation.createdAt} />],
                ['Changed', <Moment key="changed" at={installation.updatedAt} />],
                ['Secrets set', secretNames.join(', ') || 'none'],
              ]}
            />
            {lastExit === null ? null : (
              <details>
                <summary>How it ended last</summary>
                <Payload>{visibleJson(lastExit)}</Payload>
              </details>
            )}
          </Part>
        </Stack>
      </Grid.Col>
    </Grid>
  );
}
