/** The overview tab of an installation. */

import { Grid, Stack } from '@mantine/core';
import { ReachList } from '../catalog/reach-list.tsx';
import type { Installation } from '../rest/installations.ts';
import { DescriptionList } from '../shell/description-list.tsx';
import { PreformattedText } from '../shell/preformatted-text.tsx';
import { Section } from '../shell/section.tsx';
import { Timestamp } from '../shell/timestamp.tsx';
import { formatJson } from '../style/untrusted-text.ts';
import { hasHooks } from './required-checkbox.tsx';
import { RequiredSetting } from './required-setting.tsx';
import { describeProcess } from './status-badge.tsx';
import { VersionPolicy } from './version-policy.tsx';

const MIB = 2 ** 20;

export function Overview({ installation }: { readonly installation: Installation }) {
  const { runtime, reach, grantedCapabilities, secretNames } = installation;
  const { rssBytes, lastExit } = runtime;
  return (
    <Grid gap="md">
      <Grid.Col span={12}>
        <DescriptionList
          look="figures"
          rows={[
            ['Process', describeProcess(installation)],
            ['Memory', rssBytes === null ? '–' : `${Math.round(rssBytes / MIB)} MiB`],
            ['Restarts', runtime.restarts],
            ['Running since', <Timestamp key="started" at={runtime.startedAt} />],
          ]}
        />
      </Grid.Col>
      <Grid.Col span={{ base: 12, lg: 6 }}>
        <Section title={installation.own ? 'What you have allowed' : 'What its user has allowed'}>
          <ReachList reach={reach.filter(({ capability }) => grantedCapabilities.includes(capability))} />
        </Section>
      </Grid.Col>
      <Grid.Col span={{ base: 12, lg: 6 }}>
        <Stack>
          <Section title="Versions">
            <VersionPolicy
              installation={installation}
              key={`${installation.versionPolicy} ${installation.pinnedVersionId}`}
            />
          </Section>
          {hasHooks(reach) ? (
            <Section title="When it does not run">
              <RequiredSetting installation={installation} />
            </Section>
          ) : null}
          <Section title="Details">
            <DescriptionList
              rows={[
                ['Installed', <Timestamp key="installed" at={installation.createdAt} />],
                ['Changed', <Timestamp key="changed" at={installation.updatedAt} />],
                ['Secrets set', secretNames.join(', ') || 'none'],
              ]}
            />
            {lastExit === null ? null : (
              <details>
                <summary>How it ended last</summary>
                <PreformattedText>{formatJson(lastExit)}</PreformattedText>
              </details>
            )}
          </Section>
        </Stack>
      </Grid.Col>
    </Grid>
  );
}
