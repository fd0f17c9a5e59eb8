/** Where one can go from everywhere. */
import { IconBuildingStore, IconPackage, IconPlayerPlay, IconPlug } from '@tabler/icons-react';

export const places = [
  { to: '/catalog', label: 'Catalog', icon: IconBuildingStore },
  { to: '/installations', label: 'Installations', icon: IconPlug },
  { to: '/plugins', label: 'My plugins', icon: IconPackage },
  { to: '/playground', label: 'Playground', icon: IconPlayerPlay },
] as const;
