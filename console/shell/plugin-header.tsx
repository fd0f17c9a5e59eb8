/** The header of a page about one plugin: icon, name, details and actions. */
import { Group, Title } from '@mantine/core';
import type { ReactNode } from 'react';
import { escapeText } from '../style/untrusted-text.ts';
import { PluginIcon } from './plugin-icon.tsx';
import { usePageTitle } from './use-page-title.ts';

interface Props {
  readonly of: { readonly slug: string; readonly displayName: string };
  readonly iconSize?: number;
  /** Under its name. */
  readonly children: ReactNode;
  readonly actions: ReactNode;
}

export function PluginHeader({ of: { slug, displayName }, iconSize = 52, children, actions }: Props) {
  usePageTitle(escapeText(displayName));
  return (
    <div className="page-head">
      <Group wrap="nowrap" gap="md" align="flex-start">
        <PluginIcon slug={slug} name={displayName} size={iconSize} />
        <div>
          <Title order={1} className="foreign">
            {escapeText(displayName)}
          </Title>
          {children}
        </div>
      </Group>
      {actions}
    </div>
  );
}
